// Keys, as the session's table says them. They are heard wherever the focus is: on a page always, in a
// notebook while the pointer is over the view or the focus in it; not in fields that take letters.

import { light } from "./dom.js";

const CODES = { Comma: ",", Period: ".", Slash: "/", BracketLeft: "[", BracketRight: "]" };
const NAMES = { " ": "Space", Escape: "Esc", ArrowLeft: "Left", ArrowRight: "Right", ArrowUp: "Up",
  ArrowDown: "Down" };
// What is no letter, and what a field of one line has no use for.
const HEARD_IN_FIELDS = new Set(["PageUp", "PageDown", "Esc", "Ctrl+E", "Ctrl+Enter", "Ctrl+Z",
  "Ctrl+Shift+Z", "Ctrl+Y"]);
const OF_FIELDS = "input:not([type=range],[type=radio],[type=checkbox],[type=file]),textarea,select";

// Several ways to say what was pressed: by what it writes, and by where it lies.
function spoken(event) {
  const { key, code, shiftKey, altKey } = event;
  const ctrl = event.ctrlKey || event.metaKey ? "Ctrl+" : "";
  const alt = altKey ? "Alt+" : "";
  const digit = /^(?:Digit|Numpad)(\d)$/.exec(code)?.[1];
  const letter = /^Key([A-Z])$/.exec(code)?.[1];
  const written = key.length === 1 ? key.toUpperCase() : key;
  const names = [NAMES[key] || written];
  if (digit) names.push(digit);
  if (altKey && letter) names.push(letter); // Option writes other letters
  if (CODES[code]) names.push(CODES[code]);
  const found = names.map((name) => `${ctrl}${alt}${shiftKey ? "Shift+" : ""}${name}`);
  // Shift is a part of how "?" or "+" is written.
  if (shiftKey && key.length === 1 && !/[a-z\d]/i.test(key)) found.push(`${ctrl}${alt}${written}`);
  return found;
}

// From "Shift+1 to 3" to each of them, with its number.
function eachKey(words) {
  const range = /^(.*?)(\d) to (\d)$/.exec(words);
  if (!range) return [[words, undefined]];
  const [, before, first, last] = range;
  return Array.from({ length: last - first + 1 }, (_, at) => [`${before}${+first + at}`, at]);
}

export const isField = (target) =>
  !!target?.closest?.(OF_FIELDS) || target?.isContentEditable || false;

export class Keys {
  table = new Map(); // what is pressed -> [name of a row, number]
  rows = [];

  constructor(front) {
    this.front = front;
    front.listen(window, "keydown", (event) => this.press(event), true);
    front.listen(window, "keyup", (event) => this.release(event), true);
    front.listen(window, "blur", () => front.choose({ moving: false }));
    for (const [name, over] of [["pointerenter", true], ["pointerleave", false]])
      front.listen(front.root, name, () => { this.over = over; });
    // A notebook would take these for its own.
    for (const name of ["keydown", "keyup", "keypress", "mousedown", "mouseup", "click", "dblclick"])
      front.listen(front.root, name, (event) => event.stopPropagation());
  }

  draw({ about }) {
    const rows = about?.keys;
    if (!rows || rows === this.rows) return;
    this.rows = rows;
    this.table.clear();
    for (const { name, keys } of rows)
      for (const words of keys)
        for (const [key, number] of eachKey(words)) this.table.set(key, [name, number]);
    this.front.entitle(rows);
  }

  heard(event) {
    const { root, host } = this.front;
    const inside = event.composedPath().includes(root);
    if (host) return true;
    return inside || (this.over && !isField(event.composedPath()[0]));
  }

  press(event) {
    if (event.isComposing || !this.heard(event)) return;
    if (event.key === "Tab") light(this.front.root, "tabbed", true);
    const target = event.composedPath()[0];
    const inField = isField(target);
    const found = spoken(event).find((words) => this.table.has(words));
    if (!found || (inField && !this.heardInField(found, target))) return;
    if (target.closest?.("dialog") && found !== "Esc") return; // it has its own
    if (["Enter", "Space"].includes(found) && target.closest?.("button, [role=option]")) return;
    const [name, number] = this.table.get(found);
    if (this.front.act(name, number, target) === false) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  heardInField(words, target) {
    if (!HEARD_IN_FIELDS.has(words)) return false;
    const undo = words.endsWith("Z") || words === "Ctrl+Y";
    return !undo || target.value === (target.before ?? "");
  }

  release(event) {
    if (event.key === " ") this.front.choose({ moving: false });
  }
}
