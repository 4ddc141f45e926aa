// Small conveniences; every page works without them. Loaded with `defer`, no inline scripts (CSP).
(() => {
  const root = document.documentElement;

  const applyTheme = (theme) => {
    if (theme === "dark" || theme === "light") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };

  document.addEventListener("click", async (event) => {
    const toggle = event.target.closest("[data-theme-toggle]");
    if (toggle) {
      const dark = root.dataset.theme
        ? root.dataset.theme === "dark"
        : matchMedia("(prefers-color-scheme: dark)").matches;
      const theme = dark ? "light" : "dark";
      localStorage.setItem("theme", theme);
      applyTheme(theme);
    }
    const density = event.target.closest("[data-density-toggle]");
    if (density) {
      const compact = root.dataset.density !== "compact";
      localStorage.setItem("density", compact ? "compact" : "");
      if (compact) root.dataset.density = "compact";
      else delete root.dataset.density;
      density.setAttribute("aria-pressed", String(compact));
    }
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      const text = document.querySelector(copy.dataset.copy)?.textContent ?? "";
      await navigator.clipboard.writeText(text.trim());
      const said = copy.querySelector(".copied");
      if (said) {
        said.textContent = "Copied";
        setTimeout(() => { said.textContent = ""; }, 1500);
      }
    }
  });

  document.querySelector("[data-density-toggle]")?.setAttribute("aria-pressed", String(root.dataset.density === "compact"));
  for (const button of document.querySelectorAll("[data-print]")) {
    button.hidden = false;
    button.addEventListener("click", () => window.print());
  }

  // Tabs scroll on a narrow screen: the open one is in sight.
  for (const tab of document.querySelectorAll('.tabs [aria-current="page"]')) {
    const hidden = tab.getBoundingClientRect().right - tab.parentElement.getBoundingClientRect().right;
    if (hidden > 0) tab.parentElement.scrollLeft = hidden;
  }

  // Empty fields stay out of the address.
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.verb !== "get") return;
    for (const [name, value] of [...event.detail.formData.entries()]) {
      if (value === "") event.detail.formData.delete(name);
    }
  });

  // What a reader has unfolded stays unfolded when a fragment is replaced.
  let unfolded = [];
  document.addEventListener("htmx:beforeSwap", (event) => {
    unfolded = [...event.target.querySelectorAll("details[id][open]")].map((details) => details.id);
  });
  document.addEventListener("htmx:afterSettle", () => {
    for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
    unfolded = [];
  });

  // Who moves by keyboard stays where they were when a fragment is replaced; htmx itself finds again what has an id.
  const looks = (element) => [element.tagName, element.getAttribute("href") ?? element.textContent.trim()].join(" ");
  const alike = (element) => [...document.querySelectorAll(element.tagName)].filter((other) => looks(other) === looks(element));
  let left = null;
  document.addEventListener("htmx:beforeSwap", (event) => {
    const element = document.activeElement;
    left = event.target.contains(element) && element !== document.body ? { element, place: alike(element).indexOf(element) } : null;
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (left && !left.element.isConnected && document.activeElement === document.body) {
      alike(left.element)[left.place]?.focus({ preventScroll: true });
    }
    left = null;
  });

  // A log that is followed stays at its end unless the reader scrolled up.
  document.addEventListener("htmx:afterSwap", (event) => {
    const log = event.target.closest?.("[data-follow]") ?? event.target.querySelector?.("[data-follow]");
    if (log && log.dataset.away !== "1") log.scrollTop = log.scrollHeight;
  });
  document.addEventListener("scroll", (event) => {
    const log = event.target;
    if (log instanceof Element && log.matches("[data-follow]")) {
      log.dataset.away = log.scrollTop + log.clientHeight < log.scrollHeight - 40 ? "1" : "0";
    }
  }, true);

  // A box that scrolls is reached by keyboard and has a name; one that does not is no stop on the way.
  const SCROLLING = ".table-wrap, .sheet__wide, pre, .prose table, .turn .text";
  const scrolls = (box) => box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
  const nameOf = (box) => box.closest("details, section, article, main")?.querySelector("summary, h1, h2, h3")?.textContent.trim();
  const reach = (box) => {
    if (box.hasAttribute("tabindex") && !("reached" in box.dataset)) return; // its template has said how
    if (scrolls(box) === "reached" in box.dataset || box === document.activeElement) return;
    if ("reached" in box.dataset) return ["tabindex", "role", "aria-label", "data-reached"].forEach((name) => box.removeAttribute(name));
    const kind = box.matches("pre, .text") ? "text" : "table", name = nameOf(box);
    box.tabIndex = 0;
    if (!box.matches("table")) box.setAttribute("role", "group");
    box.setAttribute("aria-label", name ? `${name}: ${kind}` : kind);
    box.dataset.reached = "";
  };
  const sizes = new ResizeObserver((entries) => entries.forEach((entry) => reach(entry.target)));
  const watch = (root) => root.querySelectorAll(SCROLLING).forEach((box) => sizes.observe(box));
  watch(document);
  document.addEventListener("htmx:load", (event) => watch(event.target));
  document.addEventListener("toggle", (event) => event.target.querySelectorAll(SCROLLING).forEach(reach), true);

  // Of transcripts side by side, those in sight are marked in the bar above them.
  const sides = new IntersectionObserver((entries) => entries.forEach(({ target, intersectionRatio }) => {
    const link = document.querySelector(`.sides__jump a[href="#${target.getAttribute("aria-labelledby")}"]`);
    if (intersectionRatio > 0.6) link?.setAttribute("aria-current", "true");
    else link?.removeAttribute("aria-current");
  }), { root: document.querySelector(".sides"), threshold: [0, 0.6] });
  document.querySelectorAll(".sides__one").forEach((side) => sides.observe(side));

  // Moments in the reader's own time: beside UTC where one points at them, and where they are written out. One form of
  // date for everybody, which Swedish writes: 2026-11-26 04:10 UTC.
  const written = (form) => new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit", ...form });
  const day = { year: "numeric", month: "2-digit", day: "2-digit" };
  const whole = written({ ...day, second: "2-digit", timeZoneName: "short" });
  const forms = { moment: written({ ...day, timeZoneName: "short" }), clock: written({ second: "2-digit" }), day: written({ ...day, hour: undefined, minute: undefined }) };
  const localise = () => document.querySelectorAll("time[datetime]:not([data-own])").forEach((time) => {
    const at = new Date(time.dateTime);
    time.dataset.own = "";
    if (Number.isNaN(at.valueOf())) return;
    time.title = [...new Set([whole.format(at), time.title])].filter(Boolean).join(", ");
    if (time.dataset.local) time.textContent = forms[time.dataset.local].format(at);
  });
  localise();
  document.addEventListener("htmx:afterSwap", localise);

  // The box that Ctrl-K opens: the page /search shows the same without scripts.
  const palette = document.getElementById("palette-box");
  const asked = palette?.querySelector("input");
  const openPalette = () => {
    if (!palette || palette.open) return;
    palette.showModal();
    asked.select();
    asked.dispatchEvent(new Event("palette-open"));
  };
  const choose = (step) => {
    const links = [...palette.querySelectorAll("#palette a")];
    if (!links.length) return;
    const now = links.findIndex((link) => "chosen" in link.dataset);
    const next = (now + step + links.length) % links.length;
    links.forEach((link, index) => index === next ? link.dataset.chosen = "" : delete link.dataset.chosen);
    links[next].scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("htmx:afterSwap", (event) => { if (event.target.id === "palette") choose(1); });
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openPalette();
      return;
    }
    if (!palette?.open || event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter" && document.activeElement === asked) {
      const chosen = palette.querySelector("#palette a[data-chosen]");
      const current = document.getElementById("palette").dataset.query === asked.value.trim();
      if (!chosen || !current) return; // the form's own page: what is shown may be of what was typed before
      event.preventDefault();
      location.assign(chosen.href);
    }
  });
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-palette]");
    if (opener && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      openPalette();
    } else if (event.target === palette) {
      palette.close();
    }
  });

  // A menu closes when something else is clicked, and by Escape.
  const shut = (except) => document.querySelectorAll(".menu[open]").forEach((menu) => menu.contains(except) || menu.removeAttribute("open"));
  document.addEventListener("click", (event) => shut(event.target));
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector(".menu[open]");
    if (menu) { shut(null); menu.querySelector("summary").focus(); }
  });
})();
