// Values of charts and tokens for pointer and keyboard. Pages work without it: tables and titles hold the same.
(() => {
  // ---- charts: one cursor in all of them; the values stand in data-texts, one for each of data-steps
  let chosen = null; // step; kept while fragments are replaced

  const numbers = (chart) => chart.dataset.steps.split("|").map(Number);
  const nearest = (steps, step) => steps.reduce((best, one, place) => Math.abs(one - step) < Math.abs(steps[best] - step) ? place : best, 0);
  const across = (chart, steps, place) => {
    if ("columns" in chart.dataset) return (100 * (place + 0.5)) / steps.length;
    const first = Number(chart.dataset.first), last = Number(chart.dataset.last);
    return (100 * (steps[place] - first)) / Math.max(1, last - first);
  };

  const mark = (charts, step) => {
    chosen = step;
    for (const chart of charts.querySelectorAll("[data-chart]")) {
      const steps = numbers(chart), place = nearest(steps, step), x = across(chart, steps, place);
      chart.querySelector("[data-cursor]").setAttribute("d", `M${x} 0V100`);
      for (const value of chart.querySelectorAll("[data-texts]")) {
        value.dataset.newest ??= value.textContent;
        value.textContent = value.dataset.texts.split("|")[place] || "–";
      }
    }
    const said = charts.querySelector("[data-at]"), link = charts.querySelector("[data-at-link]");
    const own = charts.querySelector("[data-chart]"), named = charts.dataset.places?.split("|");
    said.textContent = named ? `${named[nearest(numbers(own), step)]}.` : `Step ${step}.`;
    if (!link) return;  // of several runs: none of them is meant
    link.href = charts.dataset.stepUrl + step;
    link.hidden = step < 1;
  };

  const leave = (charts) => {
    chosen = null;
    for (const cursor of charts.querySelectorAll("[data-cursor]")) cursor.setAttribute("d", "");
    for (const value of charts.querySelectorAll("[data-newest]")) value.textContent = value.dataset.newest;
  };

  // ---- zoom: the address has what is shown (`from` and `to`, on the x axis), and the server draws it
  let dragged = null; // {svg, width, from: share of the width, to}

  const range = (chart, steps = numbers(chart)) => "columns" in chart.dataset ? [steps[0], steps.at(-1)] : [Number(chart.dataset.first), Number(chart.dataset.last)];
  const share = (svg, event) => {
    const box = svg.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const placed = (chart, part) => {
    const steps = numbers(chart), [first, last] = range(chart, steps);
    return "columns" in chart.dataset ? steps[Math.min(steps.length - 1, Math.floor(part * steps.length))] : Math.round(first + part * (last - first));
  };

  const zoom = (charts, ends) => { // no ends: all
    const form = document.querySelector("form[data-zoomed]"), address = new URL(location.href);
    for (const [name, end] of [["from", ends?.[0]], ["to", ends?.[1]]]) {
      if (form) form.elements[name].value = end ?? "";
      if (end === undefined) address.searchParams.delete(name);
      else address.searchParams.set(name, end);
    }
    if (form) return form.requestSubmit();
    address.searchParams.delete("newest");
    const area = charts.dataset.zoomIn; // `charts` itself may have been replaced while somebody dragged
    htmx.ajax("GET", address.pathname + address.search, {
      source: document.getElementById("charts"), target: `#${area}`, select: `#${area}`, swap: "outerHTML", push: "true",
    });
  };
  const isZoomed = () => ["from", "to"].some((name) => new URL(location.href).searchParams.get(name));
  const zoomTo = (chart, one, other) => {
    const ends = [Math.max(0, Math.min(one, other)), Math.max(one, other)];
    if (ends[1] > ends[0]) zoom(chart.closest("[data-charts]"), ends);
  };
  const zoomBy = (chart, factor) => {
    if (factor > 1 && !isZoomed() && !new URL(location.href).searchParams.get("newest")) return; // all is shown
    const [first, last] = range(chart), half = ((last - first) * factor) / 2;
    const middle = chosen !== null && factor < 1 ? chosen : (first + last) / 2;
    const from = Math.max(first * (factor < 1), Math.round(middle - half));
    const to = Math.round(factor < 1 ? Math.min(last, middle + half) : middle + half);
    const charts = chart.closest("[data-charts]"), whole = charts.dataset.last;
    if (factor > 1 && whole && from <= 1 && to >= Number(whole)) zoom(charts);
    else zoomTo(chart, from, to);
  };

  const show = (svg, one, other) => {
    const mark = svg.querySelector("[data-zoom]");
    mark.setAttribute("d", one === other ? "" : `M${100 * one} 0H${100 * other}V100H${100 * one}Z`);
  };
  document.addEventListener("pointerdown", (event) => {
    const svg = event.button === 0 && event.target.closest?.("[data-chart] svg");
    if (!svg) return;
    const at = share(svg, event);
    dragged = { svg, width: svg.getBoundingClientRect().width, from: at, to: at };
    svg.setPointerCapture(event.pointerId);
  });
  const drop = (event) => {
    if (!dragged) return;
    const { svg, width, from, to } = dragged, wide = Math.abs(to - from) * width;
    dragged = null;
    show(svg, 0, 0);
    const chart = svg.closest("[data-chart]");
    if (event.type === "pointerup" && wide > 6 && chart) zoomTo(chart, placed(chart, from), placed(chart, to));
  };
  document.addEventListener("pointerup", drop);
  document.addEventListener("pointercancel", drop);
  document.addEventListener("dblclick", (event) => {
    const svg = event.target.closest?.("[data-chart] svg");
    if (svg && isZoomed()) zoom(svg.closest("[data-charts]"));
  });
  document.addEventListener("change", (event) => { // another x axis: other units
    if (event.target.id === "by") for (const name of ["from", "to"]) event.target.form.elements[name].value = "";
  }, true);

  document.addEventListener("pointermove", (event) => {
    const svg = event.target.closest?.("[data-chart] svg");
    if (!svg) return;
    if (dragged?.svg === svg) show(svg, dragged.from, dragged.to = share(svg, event));
    const chart = svg.closest("[data-chart]"), steps = numbers(chart);
    const at = 100 * share(svg, event);
    const place = steps.reduce((best, _, one) => Math.abs(across(chart, steps, one) - at) < Math.abs(across(chart, steps, best) - at) ? one : best, 0);
    mark(chart.closest("[data-charts]"), steps[place]);
  });

  document.addEventListener("pointerout", (event) => {
    const svg = event.target.closest?.("[data-chart] svg");
    if (svg && !svg.contains(event.relatedTarget)) leave(svg.closest("[data-charts]"));
  });

  const moved = (key, place, count) => ({
    ArrowLeft: Math.max(0, place - 1), ArrowRight: Math.min(count - 1, place + 1), Home: 0, End: count - 1,
    PageUp: Math.max(0, place - 10), PageDown: Math.min(count - 1, place + 10),
  })[key];

  document.addEventListener("keydown", (event) => {
    const chart = event.target.closest?.("[data-chart]");
    if (!chart || event.target !== chart || event.ctrlKey || event.metaKey || event.altKey) return;
    const charts = chart.closest("[data-charts]"), steps = numbers(chart);
    if (event.key === "Escape") return isZoomed() ? zoom(charts) : leave(charts);
    if (event.key === "+" || event.key === "-") return zoomBy(chart, event.key === "+" ? 0.5 : 2);
    if (event.key === "Enter" && chosen !== null && chosen > 0 && charts.dataset.stepUrl) return location.assign(charts.dataset.stepUrl + chosen);
    const place = moved(event.key, chosen === null ? steps.length : nearest(steps, chosen), steps.length);
    if (place === undefined) return;
    event.preventDefault();
    mark(charts, steps[place]);
  });

  document.addEventListener("htmx:afterSettle", () => {
    const charts = document.querySelector("[data-charts]");
    if (charts && chosen !== null) mark(charts, chosen);
  });

  // ---- tokens: their titles, read out below the legend
  let token = null;

  const say = (next) => {
    token?.classList.remove("at");
    token = next;
    token.classList.add("at");
    document.querySelector("[data-said]").textContent = token.title;
  };

  document.addEventListener("pointerover", (event) => {
    const found = event.target.closest?.("[data-tokens] > span");
    if (found) say(found);
  });

  document.addEventListener("keydown", (event) => {
    const tokens = event.target.closest?.("[data-tokens]");
    if (!tokens || event.ctrlKey || event.metaKey || event.altKey) return;
    const place = token?.parentElement === tokens ? [...tokens.children].indexOf(token) : -1;
    const next = moved(event.key, place, tokens.children.length);
    if (next === undefined) return;
    event.preventDefault();
    say(tokens.children[next]);
    token.scrollIntoView({ block: "nearest" });
  });

  const choice = document.querySelector("[name=colour]");
  if (choice) {
    document.addEventListener("change", (event) => {
      if (event.target.name !== "colour") return;
      const address = new URL(location.href);
      address.searchParams.set("colour", event.target.value);
      history.replaceState(history.state, "", address);
    });
  }

  // ---- the form of a new run: an answer to older words replaces nothing in which somebody goes on typing
  let sent = null;

  document.addEventListener("htmx:configRequest", (event) => { sent = event.detail.formData; });
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const typed = document.activeElement;
    if (typed?.name && event.detail.target.contains(typed) && sent?.get(typed.name) !== typed.value) event.detail.shouldSwap = false;
  });
})();
