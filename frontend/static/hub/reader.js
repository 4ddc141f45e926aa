// Keys and addresses of the reader of rollouts. The page works without them: everything has a link.
(() => {
  // Keys that lead to another rollout, or to what is said of this one; `more` are those of the transcript.
  const listen = (more, busy = () => false) => document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || busy()) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const link = document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`);
    const act = more[event.key] ?? said[event.key] ?? (link && (() => link.click()));
    if (!act) return;
    event.preventDefault();
    act();
  });
  const said = {
    l: () => document.getElementById("label")?.focus(),
    m: () => document.getElementById("note")?.focus(),
  };

  const page = document.getElementById("transcript");
  if (!page) return listen({});
  const turns = () => [...page.querySelectorAll(".turn")];
  const wanted = () => /^#t(\d+)$/.exec(location.hash)?.[1];

  // A turn that is not in this window is asked for by its number.
  const arrive = () => {
    const number = wanted();
    if (number === undefined) return;
    const found = document.getElementById(`t${number}`);
    if (!found) {
      const address = new URL(location.href);
      if (address.searchParams.get("at") === number) return;
      address.searchParams.set("at", number);
      location.replace(address);
      return;
    }
    if (found.matches("details")) found.open = true;
    found.scrollIntoView({ block: "start" });
    (found.closest(".turn") ?? found).focus({ preventScroll: true });
  };
  addEventListener("hashchange", arrive);
  arrive();

  // What comes in before the first turn does not push the reader's place down.
  let height = 0, before = false;
  document.addEventListener("htmx:beforeSwap", (event) => {
    before = event.target.matches?.(".more") && event.target.compareDocumentPosition(page.querySelector(".turn")) & Node.DOCUMENT_POSITION_FOLLOWING;
    height = document.documentElement.scrollHeight;
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (before) scrollBy(0, document.documentElement.scrollHeight - height);
    before = false;
  });

  const step = (by) => {
    const all = turns(), top = 90;
    const here = all.findIndex((turn) => turn === document.activeElement?.closest?.(".turn"));
    const first = all.findIndex((turn) => turn.getBoundingClientRect().bottom > top);
    const next = all[Math.max(0, Math.min(all.length - 1, here >= 0 ? here + by : by > 0 ? first : first - 1))];
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "start" });
  };
  const onScreen = (one) => {
    const { top, bottom, height } = one.getBoundingClientRect();
    return height > 0 && bottom > 0 && top < innerHeight;
  };
  const unfold = () => {
    const folds = [...page.querySelectorAll("details")].filter(onScreen), open = folds.some((one) => !one.open);
    for (const one of folds) one.open = open;
  };
  const help = document.getElementById("keys");
  const helper = document.querySelector("[data-help]"), unfolder = document.querySelector("[data-unfold]");
  helper.hidden = unfolder.hidden = false;
  helper.addEventListener("click", () => help.showModal());
  unfolder.addEventListener("click", unfold);

  listen({
    j: () => step(1),
    k: () => step(-1),
    e: unfold,
    "?": () => help.showModal(),
    "/": () => document.getElementById("q").focus(),
  }, () => help.open);
})();
