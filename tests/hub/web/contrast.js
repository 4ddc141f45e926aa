// Evaluated in a page: texts whose WCAG contrast with their background is too low. A canvas reads every colour syntax.
() => {
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const blended = new Map();
  const over = (below, colour) => {
    const key = `${below} ${colour}`;
    if (!blended.has(key)) blended.set(key, blend(below, colour));
    return blended.get(key);
  };
  const blend = (below, colour) => {
    context.fillStyle = `rgb(${below.join(" ")})`;
    context.fillRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const backgrounds = new Map([[null, [255, 255, 255]]]);
  const behind = (element) => {
    if (!backgrounds.has(element)) {
      backgrounds.set(element, over(behind(element.parentElement), getComputedStyle(element).backgroundColor));
    }
    return backgrounds.get(element);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => part / 255).map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const low = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !element.checkVisibility() || element.closest("svg, script")) continue;
    const style = getComputedStyle(element);
    const below = behind(element);
    const [dark, bright] = [light(below), light(over(below, style.color))].sort((a, b) => a - b);
    const ratio = (bright + 0.05) / (dark + 0.05);
    const pixels = parseFloat(style.fontSize);
    const large = pixels >= 24 || (pixels >= 18.66 && parseInt(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) low.add(`${ratio.toFixed(2)} ${element.tagName}.${element.className}: ${text.slice(0, 40)}`);
  }
  return [...low];
}
