// Elements, made short. Their classes begin with "srx-": pages of hosts have rules for short names.

export const classes = (names) => names.map((name) => `srx-${name}`).join(" ");

// "button.icon" with values, and children: elements, texts, or null.
export function make(what, values = {}, ...children) {
  const [tag, ...names] = what.split(".");
  const element = document.createElement(tag);
  if (names.length) element.className = classes(names);
  Object.assign(element, values);
  // Keys of a notebook do not work where this stands on the focused element.
  element.setAttribute("data-lm-suppress-shortcuts", "true");
  element.append(...children.filter((child) => child !== null));
  return element;
}

let symbols = null;

export function icon(name, small = false) {
  if (!symbols) {
    const page = new DOMParser().parseFromString(ICONS, "image/svg+xml");
    symbols = new Map([...page.querySelectorAll("symbol")].map((one) => [one.id, one]));
  }
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", small ? "srx-svg srx-s" : "srx-svg");
  for (const part of symbols.get(name).children) svg.append(part.cloneNode(true));
  return svg;
}

export const light = (element, name, yes) => element.classList.toggle(`srx-${name}`, !!yes);

export function show(element, yes) {
  if (element.hidden === !!yes) element.hidden = !yes;
}

export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

// Whether an element is to be drawn anew: what it is drawn from is not what it was the last time.
export function isStale(element, ...from) {
  const { drawnFrom } = element;
  element.drawnFrom = from;
  return !drawnFrom || from.some((part, at) => part !== drawnFrom[at]);
}

// Bring the children of an element in line with a list of values: each has an element of its own,
// which stays while its key does, so that focus and clicks on it last.
export function keyed(parent, values, keyOf, create, update) {
  const known = (parent.byKey ||= new Map());
  const wanted = new Map(values.map((value) => [keyOf(value), value]));
  for (const [key, element] of known)
    if (!wanted.has(key)) {
      element.remove();
      known.delete(key);
    }
  let at = parent.firstChild;
  for (const [key, value] of wanted) {
    let element = known.get(key);
    if (!element) known.set(key, (element = create(value)));
    if (element === at) at = at.nextSibling;
    else parent.insertBefore(element, at);
    update(element, value);
  }
}

export const css = ([r, g, b], alpha = 1) => `rgba(${r},${g},${b},${alpha})`;
export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
export const now = () => performance.now();
