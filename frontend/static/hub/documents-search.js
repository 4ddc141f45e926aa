// The search of the exported documentation, over SECTIONS (sections.js): what hub.web.documentation.documents.search
// finds on a hub, in the same order.
(() => {
  const MOST = 30, AROUND = 90, WORDS = 8;
  const input = document.getElementById("q"), results = document.getElementById("results");

  const search = (query) => {
    const asked = (query.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? []).slice(0, WORDS);
    if (!asked.length) return [];
    const found = [];
    for (const section of SECTIONS) {
      const [heading, title, text] = [section.title, section.document, section.text].map((one) => one.toLowerCase());
      if (!asked.every((word) => heading.includes(word) || title.includes(word) || text.includes(word))) continue;
      if (!asked.some((word) => heading.includes(word) || text.includes(word))) continue;
      const score = asked.reduce((sum, word) =>
        sum + 20 * heading.includes(word) + 5 * title.includes(word) + Math.min(text.split(word).length - 1, 10), 0);
      found.push({ section, score, ...place(section.text, text, asked) });
    }
    return found.sort((one, other) => other.score - one.score).slice(0, MOST);
  };

  const place = (text, lower, asked) => {
    const places = asked.map((word) => [lower.indexOf(word), word.length]).filter(([at]) => at >= 0);
    const [at, length] = places.sort((one, other) => one[0] - other[0] || one[1] - other[1])[0] ?? [0, 0];
    const begin = Math.max(0, at - AROUND), end = at + length + AROUND;
    return {
      before: (begin ? "… " : "") + text.slice(begin, at),
      match: text.slice(at, at + length),
      after: text.slice(at + length, end) + (end < text.length ? " …" : ""),
    };
  };

  const copy = (id) => document.getElementById(id).content.cloneNode(true);

  const item = ({ section, before, match, after }) => {
    const one = copy("one"), link = one.querySelector("a"), mark = document.createElement("mark");
    link.href = `${section.slug}.html${section.anchor && `#${section.anchor}`}`;
    link.textContent = section.title;
    one.querySelector("span").textContent = section.document === section.title ? "" : `in ${section.document}`;
    mark.textContent = match;
    one.querySelector("p").append(before, mark, after);
    return one;
  };

  const show = () => {
    const found = search(input.value);
    const list = document.createElement("ul");
    list.className = "list";
    list.append(...found.map(item));
    results.replaceChildren(found.length ? list : copy(input.value.trim() ? "nothing" : "unasked"));
  };

  input.value = new URLSearchParams(location.search).get("q") ?? "";
  input.addEventListener("input", () => {
    history.replaceState(null, "", input.value ? `?q=${encodeURIComponent(input.value)}` : location.pathname);
    show();
  });
  show();
})();
