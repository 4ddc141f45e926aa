// Evaluated in a page: controls without an accessible name, scrolling boxes out of the keyboard's reach, stray headings.
async () => {
  // What scrolls is named by the page's script once the browser has laid it out.
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const named = (element) => element.getAttribute("aria-label") || element.getAttribute("aria-labelledby") ||
    element.textContent.trim() || [...(element.labels ?? [])].some((label) => label.textContent.trim());
  const shown = (selector) => [...document.querySelectorAll(selector)].filter((element) => element.checkVisibility());
  const found = shown("a[href], button, input:not([type=hidden]), select, textarea, summary, progress, [role=img]")
    .filter((element) => !named(element))
    .map((element) => element.outerHTML.slice(0, 120));
  const scrolls = (box) => /auto|scroll/.test(getComputedStyle(box).overflowX + getComputedStyle(box).overflowY) &&
    (box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1);
  const reached = (box) => box.tabIndex >= 0 || box.querySelector("a[href], button, input, select, textarea, [tabindex='0']");
  found.push(...shown("main *").filter((box) => scrolls(box) && !(reached(box) && (box.tabIndex < 0 || named(box) && (box.role || ["TABLE", "TEXTAREA"].includes(box.tagName)))))
    .map((box) => `scrolls unnamed or out of reach: ${box.outerHTML.slice(0, 120)}`));
  const headings = document.querySelectorAll("h1").length;
  if (headings !== 1) found.push(`${headings} headings of the first level`);
  if (!document.documentElement.lang || !document.title) found.push("no language or no title");
  return found;
}
