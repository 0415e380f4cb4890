// The front end of interactive segmentation: a canvas, its gestures, and messages to a session.
// Used as it is by notebooks (as the `_esm` of a widget) and by the page. No build, no imports.
// The messages are described in python/sam_rlx/apps/annotator/__init__.py.

const NOTHING = { objects: [], current: null };
const BUSY_AFTER = 500; // ms
const UNHEARD_AFTER = 10000; // ms without any message of the session
const DRAG = 4; // CSS pixels from which a press is a drag
const LONG = 500; // ms from which a touch is a right click
const MAX_HEIGHT = 640; // CSS pixels of the canvas
const KEPT_FRAMES = 48;
const RATE = 12; // frames per second of "play"

const CSS = `
.srx{--bg:var(--jp-layout-color1,light-dark(#fff,#1b1c1f));--fg:var(--jp-ui-font-color1,light-dark(#222,#ddd));
--soft:var(--jp-layout-color2,light-dark(#f0f1f3,#2a2c31));--line:var(--jp-border-color2,light-dark(#ccc,#4a4d55));
--accent:var(--jp-brand-color1,#1976d2);color:var(--fg);background:var(--bg);
font:13px/1.35 var(--jp-ui-font-family,system-ui,sans-serif);border:1px solid var(--line);border-radius:6px;
overflow:hidden;position:relative;text-align:left;
*{box-sizing:border-box}
[hidden]{display:none!important}
.srx-row{display:flex;flex-wrap:wrap;gap:4px;align-items:center;padding:5px 6px}
.srx-sep{width:1px;height:18px;background:var(--line);margin:0 3px}
:is(button,select,input:not([type=range])){font:inherit;color:inherit;background:var(--soft);
border:1px solid var(--line);border-radius:4px;min-height:26px;padding:2px 8px;margin:0}
button{cursor:pointer;min-width:28px}
button:hover:not(:disabled){border-color:var(--accent)}
button:disabled{opacity:.4;cursor:default}
button.srx-on{background:var(--accent);border-color:var(--accent);color:#fff}
:focus-visible{outline:2px solid var(--accent);outline-offset:-1px}
input[type=range]{accent-color:var(--accent);margin:0}
.srx-opacity{width:70px}
.srx-words{flex:1 1 140px;min-width:90px}
.srx-seek{flex:1 1 120px;min-width:80px}
.srx-stage{position:relative;background:var(--soft);border:solid var(--line);border-width:1px 0;overflow:hidden}
canvas{display:block;width:100%;touch-action:none;cursor:crosshair;outline-offset:-3px}
.srx-badge{position:absolute;left:8px;top:8px;padding:3px 9px;border-radius:12px;background:#000b;color:#fff;pointer-events:none;
max-width:calc(100% - 16px)}
.srx-error{background:#b3261e}
.srx-meter{position:absolute;left:0;bottom:0;height:3px;background:var(--accent);transition:width .1s}
.srx-list{max-height:132px;overflow:auto}
.srx-chip{display:inline-flex;align-items:center;gap:5px;border:1px solid var(--line);border-radius:13px;padding:1px 4px 1px 8px;
background:var(--soft);cursor:pointer;max-width:100%}
.srx-chip.srx-on{border-color:var(--accent);box-shadow:0 0 0 1px var(--accent)}
.srx-chip i{width:11px;height:11px;border-radius:6px;flex:none}
.srx-chip b{font-weight:400;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;max-width:170px}
.srx-chip button{min-width:18px;min-height:18px;border:0;background:none;padding:0;line-height:1}
.srx-chip input{min-height:20px;width:110px;padding:0 4px}
.srx-hint{padding:0 2px}
:is(.srx-hint,small){opacity:.65}}
`;

const u32 = ([r, g, b], alpha) =>
  ((Math.round(alpha * 255) << 24) | (b << 16) | (g << 8) | r) >>> 0;
const css = ([r, g, b], alpha = 1) => `rgba(${r},${g},${b},${alpha})`;
const bytes = (part) =>
  part instanceof ArrayBuffer
    ? new Uint8Array(part)
    : new Uint8Array(part.buffer, part.byteOffset, part.byteLength);

const newCanvas = (width = 1, height = 1) =>
  Object.assign(document.createElement("canvas"), { width, height });
const around = (a, b) =>
  [Math.min(a.x, b.x), Math.min(a.y, b.y), Math.max(a.x, b.x), Math.max(a.y, b.y)];
const now = () => performance.now();
const clip = (value, low, high) => Math.min(Math.max(value, low), high);
const light = (button, on) => button.classList.toggle("srx-on", on);

const take = (event) => {
  event.preventDefault();
  event.stopPropagation();
};

const modified = (event) =>
  event.shiftKey || event.ctrlKey || event.altKey || event.metaKey;

// Whether a pixel is set, with a border of `pad` empty pixels around.
function unpack(head, bits, pad) {
  const [x0, y0, x1, y1] = head.box;
  const width = x1 - x0;
  const height = y1 - y0;
  const stride = width + 2 * pad;
  const row = (width + 7) >> 3;
  const out = new Uint8Array(stride * (height + 2 * pad));
  for (let y = 0; y < height; y++) {
    let at = (y + pad) * stride + pad;
    const from = y * row;
    for (let x = 0; x < width; x++, at++) out[at] = (bits[from + (x >> 3)] >> (7 - (x & 7))) & 1;
  }
  return out;
}

// A canvas with the filling and the outline of a mask; `x`, `y` say where in the grid it lies.
function painted(head, bits, color, fill, edge, reach) {
  const [x0, y0, x1, y1] = head.box;
  const width = x1 - x0;
  const height = y1 - y0;
  if (width < 1 || height < 1) return null;
  const canvas = newCanvas(width, height);
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(width, height);
  const out = new Uint32Array(pixels.data.buffer);
  const set = unpack(head, bits, reach);
  const stride = width + 2 * reach;
  const inner = u32(color, fill);
  const outer = u32(color, edge);
  for (let y = 0, to = 0; y < height; y++) {
    for (let x = 0, at = (y + reach) * stride + reach; x < width; x++, at++, to++) {
      if (!set[at]) continue;
      const near =
        set[at - reach] & set[at + reach] & set[at - reach * stride] & set[at + reach * stride];
      out[to] = near ? inner : outer;
    }
  }
  context.putImageData(pixels, 0, 0);
  return { canvas, x: x0, y: y0 };
}

async function inflate(part) {
  const stream = new Blob([part]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint16Array(await new Response(stream).arrayBuffer());
}

class Front {
  id = Math.random().toString(36).slice(2);
  seq = 0;
  waiting = new Map(); // seq -> time, until answered
  image = null; // head of the image
  bitmap = null;
  state = NOTHING;
  bits = new Map(); // id of a mask -> {head, bits}
  paints = new Map(); // id of a mask -> {key, paint}
  layers = null;
  hover = null;
  hoverAt = null; // where the pointer is and what is not asked yet
  hoverSeq = 0;
  frames = new Map();
  frame = 0;
  frameSeq = 0;
  frameWanted = null;
  playing = false;
  scale = 1;
  left = 0;
  top = 0;
  fitted = true;
  opacity = 0.45;
  outline = false;
  labels = true;
  example = null; // 0 or 1: a drag gives an example box of this label
  examples = [];
  drag = null;
  fingers = new Map(); // id of a pointer that is down -> where
  aimed = null; // where keys aim
  status = "";
  note = ""; // until something is done
  part = null;
  gone = false;
  nudgedFrom = 0; // when it began
  nudgeAt = 0;

  constructor(model, root) {
    this.model = model;
    this.root = root;
    this.build();
    this.listen();
    this.resize();
    this.show();
    this.readyAt = this.begunAt = now();
    this.send("ready");
  }

  // What tests see.
  peek() {
    const { image, state, scale, left, top, waiting, status } = this;
    if (!image) return null;
    return {
      name: image.name, index: image.index, count: image.count, scale, left, top, tool: "click",
      objects: state.objects.map(({ id, name, points }) => ({ id, name, points: points.length })),
      busy: !this.bitmap || waiting.size > 0 || !!status, saved: !state.unsaved, n: state.n,
    };
  }

  // ---- elements

  make(tag, className, parent, values = {}) {
    const element = document.createElement(tag);
    // Pages of hosts have rules for names such as "row".
    if (className) element.className = className.replace(/\S+/g, "srx-$&");
    Object.assign(element, values);
    // Keys of a notebook do not work where this stands on the focused element.
    element.setAttribute("data-lm-suppress-shortcuts", "true");
    parent.append(element);
    return element;
  }

  button(parent, text, title, action) {
    return this.make("button", "", parent, {
      type: "button", textContent: text, title, ariaLabel: title, onclick: action,
    });
  }

  build() {
    const root = this.root;
    root.classList.add("srx");
    this.make("style", "", root, { textContent: CSS });
    this.buildBar(this.make("div", "row bar", root));
    this.buildTexts(this.make("div", "row texts", root, { hidden: true }));
    this.stage = this.make("div", "stage", root);
    this.canvas = this.make("canvas", "", this.stage, {
      tabIndex: 0, role: "application",
      ariaLabel: "image: click what to segment, or aim with Shift and arrows; I: inside, X: outside",
    });
    this.context = this.canvas.getContext("2d");
    this.badge = this.make("div", "badge", this.stage, { hidden: true, role: "status" });
    this.meter = this.make("div", "meter", this.stage);
    this.buildVideo(this.make("div", "row video", root, { hidden: true }));
    this.list = this.make("div", "row list", root);
  }

  buildBar(bar) {
    const button = (...values) => this.button(bar, ...values);
    const sep = () => this.make("span", "sep", bar);
    this.undo = button("↶", "undo (Ctrl+Z)", () => this.send("undo"));
    this.redo = button("↷", "redo (Ctrl+Y)", () => this.send("redo"));
    sep();
    this.commit = button("✓ next", "keep this object, begin another (Enter)", () =>
      this.send("commit"),
    );
    this.remove = button("delete", "delete this object (Delete)", () =>
      this.send("delete"),
    );
    this.choices = [0, 1, 2].map((at) =>
      button("abc"[at], `answer ${at + 1} to the click (Shift+${at + 1}, C)`, () =>
        this.send("candidate", { index: at }),
      ),
    );
    sep();
    this.all = button("everything", "find everything, then click masks (E)", () =>
      this.everything(),
    );
    this.lines = button("outline", "outlines only (O)", () => {
      this.outline = !this.outline;
      this.compose();
      this.show();
    });
    this.slider = this.make("input", "opacity", bar, {
      type: "range", min: 0, max: 1, step: 0.05, value: this.opacity, title: "opacity",
      oninput: () => {
        this.opacity = +this.slider.value;
        this.compose();
      },
    });
    this.tags = button("names", "show names (L)", () => {
      this.labels = !this.labels;
      this.draw();
      this.show();
    });
    button("fit", "whole image (0)", () => this.fit());
    this.queue = sep();
    this.previous = button("◀", "previous image (PageUp)", () => this.turn(-1));
    this.count = this.make("span", "hint", bar);
    this.following = button("▶", "next image (PageDown)", () => this.turn(1));
    this.save = this.make("select", "save", bar, { title: "export" });
    for (const [value, text] of [
      ["", "export…"], ["coco", "COCO"], ["png", "PNG of each"], ["labels", "label image"],
      ["npz", "NumPy"], ["polygons", "polygons"],
    ]) this.make("option", "", this.save, { value, textContent: text });
    this.save.addEventListener("change", () => {
      if (this.save.value) this.send("export", { format: this.save.value });
      this.save.value = "";
    });
  }

  buildTexts(row) {
    this.texts = row;
    this.words = this.make("input", "words", row, {
      type: "text", placeholder: "what to find, such as: red circle", maxLength: 500,
      ariaLabel: "text",
      onkeydown: ({ key }) => { if (key === "Enter") this.find(); },
    });
    this.threshold = this.make("input", "", row, {
      type: "number", min: 0, max: 1, step: 0.05, value: 0.5, title: "least score",
    });
    this.button(row, "find", "find what the text names", () => this.find());
    this.likes = [1, 0].map((label) =>
      this.button(row, label ? "+ example" : "− example",
        `drag a box around what is ${label ? "" : "not "}meant`, () => {
          this.example = this.example === label ? null : label;
          this.show();
        }),
    );
    this.clear = this.button(row, "no examples", "forget the example boxes", () => {
      this.examples = [];
      this.example = null;
      this.show();
      this.draw();
    });
  }

  buildVideo(row) {
    this.video = row;
    this.player = this.button(row, "▶", "play (Space)", () => this.play(!this.playing));
    this.seek = this.make("input", "seek", row, {
      type: "range", min: 0, value: 0, title: "frame",
      oninput: () => {
        this.play(false);
        this.goto(+this.seek.value);
      },
    });
    this.counter = this.make("span", "hint", row);
    this.forward = this.button(row, "track ⟶", "track from here to the end (T)", () => this.track(false));
    this.back = this.button(row, "⟵", "track from here to the beginning", () => this.track(true));
    this.halt = this.button(row, "stop", "stop tracking (Esc)", () => this.send("stop"));
  }

  // ---- events

  listen() {
    this.ends = [];
    const on = (target, kinds, handler, options) => {
      for (const kind of kinds.split(" ")) {
        target.addEventListener(kind, handler, options);
        this.ends.push(() => target.removeEventListener(kind, handler, options));
      }
    };
    const canvas = this.canvas;
    for (const [kind, name] of [["down", "press"], ["move", "move"], ["up", "release"]])
      on(canvas, `pointer${kind}`, (event) => this[name](event));
    on(canvas, "pointercancel", () => { this.drag = null; });
    on(canvas, "pointerup pointercancel pointerleave", (event) =>
      this.fingers.delete(event.pointerId));
    on(canvas, "pointerleave", () => this.leave());
    on(canvas, "wheel", (event) => this.wheel(event), { passive: false });
    on(canvas, "contextmenu", take);
    on(canvas, "keydown", (event) => this.key(event));
    on(canvas, "keyup blur", () => { this.spaceDown = false; });
    // A notebook would take these for its own.
    on(this.root, "keydown keyup keypress mousedown mouseup click dblclick", (event) =>
      event.stopPropagation(),
    );
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(this.stage);
    this.ends.push(() => observer.disconnect());
    const hear = (names, handler) => {
      for (const name of names.split(" ")) {
        this.model.on(name, handler);
        this.ends.push(() => this.model.off?.(name, handler));
      }
    };
    hear("msg:custom", (head, buffers) => this.receive(head, (buffers || []).map(bytes)));
    hear("comm_live_update comm:close destroy", () => this.lose());
    // marimo runs dependent cells for what a view sets.
    hear("change:revision", () => setTimeout(() => this.echo()));
    const timer = setInterval(() => this.tick(), 250);
    this.ends.push(() => clearInterval(timer));
  }

  end() {
    this.send("bye");
    for (const end of this.ends) end();
    this.play(false);
  }

  echo() {
    const revision = this.model.get("revision");
    if (revision === this.echoed) return;
    this.echoed = revision;
    this.model.set("revision", revision);
    this.model.save_changes();
  }

  lose() {
    this.gone = true;
    this.waiting.clear();
    this.show();
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.at(event.clientX - box.left, event.clientY - box.top);
  }

  at(u, v) {
    return { u, v, x: (u - this.left) / this.scale, y: (v - this.top) / this.scale };
  }

  get one() {
    return this.state.objects[this.state.current];
  }

  get isVideo() {
    return this.image?.kind === "video";
  }

  inside({ x, y }) {
    return this.image && x >= 0 && y >= 0 && x < this.image.width && y < this.image.height;
  }

  press(event) {
    this.canvas.focus({ preventScroll: true });
    if (!this.image) return;
    event.preventDefault();
    const at = this.point(event);
    this.fingers.set(event.pointerId, at);
    if (this.fingers.size > 1) {
      this.drag = null;
      return this.draw();
    }
    const pan = event.button === 1 || this.spaceDown;
    if (!pan && !this.inside(at)) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { at, to: at, pan, label: event.button === 2 || modified(event) ? 0 : 1,
      left: this.left, top: this.top, since: now() };
    this.hoverAt = this.aimed = null;
  }

  move(event) {
    const at = this.point(event);
    const drag = this.drag;
    if (this.fingers.size > 1) return this.pinch(event.pointerId, at);
    if (drag) {
      drag.to = at;
      if (Math.hypot(at.u - drag.at.u, at.v - drag.at.v) > DRAG) drag.moved = true;
      if (drag.pan && drag.moved)
        this.shift(drag.left + at.u - drag.at.u, drag.top + at.v - drag.at.v);
      return this.draw();
    }
    this.aimed = null;
    if (this.layers) return this.highlight(at);
    if (!this.inside(at) || this.example !== null || this.playing) return;
    this.hoverAt = { x: at.x, y: at.y, label: modified(event) ? 0 : 1 };
    this.ask();
  }

  // Zoom and pan so that what lies under two fingers stays there.
  pinch(id, at) {
    const old = this.fingers.get(id);
    const other = [...this.fingers.values()].find((one) => one !== old);
    this.fingers.set(id, at);
    const reach = ({ u, v }) => Math.hypot(u - other.u, v - other.v) || 1;
    this.zoom(reach(at) / reach(old), other);
  }

  release(event) {
    const drag = this.drag;
    this.drag = null;
    if (!drag || drag.pan) return;
    this.hover = null;
    if (drag.moved) {
      const to = this.point(event);
      const x = clip(to.x, 0, this.image.width);
      const y = clip(to.y, 0, this.image.height);
      const box = around(drag.at, { x, y });
      if (box[2] - box[0] > 0 && box[3] - box[1] > 0) this.boxed(box);
    } else {
      const long = event.pointerType === "touch" && now() - drag.since > LONG;
      this.clicked(drag.at, long ? 0 : drag.label);
    }
    this.draw();
  }

  boxed(box) {
    if (this.example === null) return this.send("box", { box, ...this.where() });
    this.examples.push({ box, label: this.example });
    this.find();
  }

  leave() {
    if (this.drag) return;
    this.hoverAt = null;
    if (this.hover || this.waiting.has(this.hoverSeq)) {
      this.waiting.delete(this.hoverSeq);
      this.hoverSeq = 0;
      this.hover = null;
      this.send("leave");
    }
    this.blend();
  }

  // Of hovers one is on its way; of those that wait the newest is asked next.
  ask() {
    if (!this.hoverAt || this.waiting.has(this.hoverSeq) || this.gone) return;
    const { x, y, label } = this.hoverAt;
    this.hoverAt = null;
    this.hoverSeq = this.send("hover", { x, y, label, ...this.where() });
  }

  where() {
    return this.isVideo ? { frame: this.frame } : {};
  }

  wheel(event) {
    const { activeElement } = this.root.getRootNode();
    if (!this.image || !(event.ctrlKey || activeElement === this.canvas)) return;
    take(event);
    this.zoom(Math.exp(-event.deltaY * 0.0015), this.point(event));
  }

  zoom(factor, { u, v }) {
    const old = this.scale;
    this.scale = clip(old * factor, this.whole() * 0.9, 40);
    const part = this.scale / old;
    this.shift(u - (u - this.left) * part, v - (v - this.top) * part);
  }

  shift(left, top) {
    Object.assign(this, { left, top, fitted: false });
    this.draw();
  }

  key(event) {
    const { shiftKey } = event;
    const command = event.ctrlKey || event.metaKey;
    const digit = /^(?:Digit|Numpad)([1-9])$/.exec(event.code);
    const center = { u: this.canvas.clientWidth / 2, v: this.canvas.clientHeight / 2 };
    const pan = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
    const keys = {
      Enter: () => this.send("commit"), Escape: () => this.escape(),
      Delete: () => this.remove.click(), Backspace: () => this.remove.click(),
      c: () => this.nextCandidate(), e: () => this.everything(),
      o: () => this.lines.click(), l: () => this.tags.click(),
      i: () => this.clicked(this.aimed, 1), x: () => this.clicked(this.aimed, 0),
      "+": () => this.zoom(1.25, center), "=": () => this.zoom(1.25, center),
      "-": () => this.zoom(0.8, center), 0: () => this.fit(),
      PageDown: () => this.turn(1), PageUp: () => this.turn(-1),
      t: () => this.video.hidden || this.forward.click(),
      " ": () => this.video.hidden ? (this.spaceDown = true) : this.play(!this.playing),
      ",": () => this.goto(this.frame - 1), ".": () => this.goto(this.frame + 1),
    };
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (command && key === "z") this.send(shiftKey ? "redo" : "undo");
    else if (command && key === "y") this.send("redo");
    else if (command || event.altKey) return;
    else if (digit) {
      const index = digit[1] - 1;
      if (index < (shiftKey ? 3 : this.state.objects.length))
        if (shiftKey) this.send("candidate", { index });
        else this.send("select", { object: this.state.objects[index].id });
    } else if (pan[key]) {
      const [x, y] = pan[key];
      if (shiftKey) this.aim(x, y, center);
      else this.shift(this.left + x, this.top + y);
    } else if (key === "Tab") return;
    else keys[key]?.();
    event.preventDefault();
  }

  // Without a mouse: move a cross, and click there.
  aim(left, top, { u, v }) {
    const { x, y } = this.aimed || this.at(u, v);
    const step = 4 * this.scale;
    const to = { x: x - left / step, y: y - top / step };
    if (!this.inside(to)) return;
    this.aimed = to;
    this.hoverAt = { ...to, label: 1 };
    this.ask();
    this.draw();
  }

  clicked(at, label) {
    if (!at) return;
    const { x, y } = at;
    if (this.layers) this.send("pick", { x, y });
    else this.send("click", { x, y, label, ...this.where() });
  }

  escape() {
    if (this.drag) this.drag = null;
    else if (this.example !== null) this.example = null;
    else if (this.layers) this.send("everything", { on: false });
    else if (this.running) this.send("stop");
    else this.send("cancel");
    this.show();
    this.draw();
  }

  nextCandidate() {
    const { one } = this;
    if (one?.candidates > 1)
      this.send("candidate", { index: (one.candidate + 1) % one.candidates });
  }

  everything() {
    if (this.image?.kind === "image") this.send("everything", { on: !this.layers });
  }

  turn(step) {
    const index = (this.image?.index ?? 0) + step;
    if (this.image?.kind === "image" && index >= 0 && index < this.image.count)
      this.send("image", { index });
  }

  find() {
    const text = this.words.value.trim();
    if (!text && !this.examples.length) return;
    this.send("text", {
      text, threshold: +this.threshold.value,
      boxes: this.examples.map(({ box }) => box), box_labels: this.examples.map(({ label }) => label),
    });
  }

  // ---- messages

  send(type, fields = {}) {
    const seq = ++this.seq;
    if (this.gone) return seq;
    if (!["leave", "bye", "stop"].includes(type)) this.waiting.set(seq, now());
    if (!["leave", "bye", "hover", "ready", "frame"].includes(type)) this.note = "";
    this.model.send({ type, view: this.id, seq, ...fields });
    return seq;
  }

  receive(head, buffers) {
    this.heard = true;
    if (head.to && head.to !== this.id) return;
    const mine = head.answer && head.answer.view === this.id;
    if (mine) this.waiting.delete(head.answer.seq);
    this.gone = false;
    const handler = this[`on_${head.type}`];
    if (!handler || (!this.image && !["image", "status", "error"].includes(head.type))) return;
    if (mine || head.type !== "error") this.failed = "";
    handler.call(this, head, buffers);
  }

  async on_image(head, [file]) {
    const old = this.image;
    this.image = head;
    this.bits.clear();
    this.paints.clear();
    this.frames.clear();
    this.hover = null;
    this.state = NOTHING;
    if (!old || old.width !== head.width || old.height !== head.height) this.fitted = true;
    this.texts.hidden = !head.texts;
    this.video.hidden = head.kind !== "video";
    this.resize();
    this.show();
    if (head.kind === "video") {
      this.seek.max = head.frames - 1;
      this.goto(Math.min(this.frame, head.frames - 1), true);
    } else {
      this.bitmap = null;
      const bitmap = await createImageBitmap(new Blob([file]));
      if (this.image === head) this.bitmap = bitmap;
    }
    this.draw();
  }

  on_state(head, buffers) {
    head.masks.forEach((mask, at) => this.bits.set(mask.id, { head: mask, bits: buffers[at] }));
    const used = new Set(head.objects.map((one) => one.mask));
    for (const id of this.bits.keys()) if (!used.has(id)) {
      this.bits.delete(id);
      this.paints.delete(id);
    }
    this.state = head;
    this.compose();
    this.show();
    this.listObjects();
  }

  on_hover(head, [bits]) {
    const color = this.one?.color || [255, 255, 255];
    const stale = head.frame !== undefined && head.frame !== this.frame;
    this.hover = stale || !this.hoverSeq ? null
      : painted(head.mask, bits, color, 0.3, 1, this.reach(head.mask.size[0]));
    if (this.hover) this.hover.size = head.mask.size;
    this.blend();
    this.painted = { seq: head.answer.seq, at: now() };
    this.ask();
  }

  async on_layer(head, [file]) {
    this.hover = null;
    this.layers = null;
    if (head.count) {
      const labels = await inflate(file);
      this.layers = { labels, size: head.size, count: head.count, at: -1 };
      this.layers.canvas = this.layerCanvas(0);
    }
    this.show();
    this.draw();
  }

  on_status(head) {
    this.status = head.text;
    this.part = head.part;
    this.show();
  }

  on_note(head) {
    this.note = head.text;
    this.show();
  }

  on_error(head) {
    this.failed = head.text;
    this.show();
    this.ask();
  }

  on_file(head, [contents]) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([contents], { type: head.mime }));
    link.download = head.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  // ---- video

  goto(frame, force = false) {
    frame = clip(frame, 0, (this.image?.frames ?? 1) - 1);
    if (frame === this.frame && !force) return;
    this.frame = frame;
    this.hover = null;
    this.seek.value = frame;
    if (this.frames.has(frame)) this.showFrame();
    else this.frameWanted = frame;
    this.askFrame();
    this.show();
  }

  askFrame() {
    if (this.frameWanted === null || this.waiting.has(this.frameSeq)) return;
    this.frameSeq = this.send("frame", { frame: this.frameWanted });
    this.frameWanted = null;
  }

  async on_frame(head, [file, ...buffers]) {
    const bitmap = await createImageBitmap(new Blob([file]));
    this.frames.delete(head.frame);
    this.frames.set(head.frame, { bitmap, masks: head.masks, buffers });
    while (this.frames.size > KEPT_FRAMES) this.frames.delete(this.frames.keys().next().value);
    if (head.frame === this.frame) this.showFrame();
    this.askFrame();
  }

  on_masks(head, buffers) {
    const kept = this.frames.get(head.frame);
    if (kept) Object.assign(kept, { masks: head.masks, buffers });
    if (head.frame === this.frame) this.showFrame();
  }

  on_progress(head) {
    this.running = head.running;
    this.part = head.running ? head.done / Math.max(head.total, 1) : null;
    this.status = head.running ? `tracking ${head.done} of ${head.total}` : "";
    this.show();
  }

  showFrame() {
    const kept = this.frames.get(this.frame);
    if (!kept) return;
    this.bitmap = kept.bitmap;
    this.compose();
    this.show();
  }

  play(on) {
    if (on === this.playing) return;
    this.playing = on;
    clearInterval(this.playTimer);
    if (on) this.playTimer = setInterval(() => {
      if (!this.frames.has(this.frame)) return; // it is on its way
      this.goto(this.frame + 1 < this.image.frames ? this.frame + 1 : 0);
    }, 1000 / RATE);
    this.show();
  }

  track(reverse) {
    this.send("propagate", { frame: this.frame, reverse });
  }

  // ---- what is seen

  tick() {
    if (devicePixelRatio !== this.ratio) this.resize();
    // The first one may wait behind a running cell; a later one need not.
    if (!this.image && !this.gone && now() - this.readyAt > 2000) {
      this.readyAt = now();
      this.waiting.delete(this.send("ready", { again: true })); // not always answered
    }
    const slow = this.isSlow();
    const unheard = this.isUnheard();
    if (slow !== this.wasSlow || unheard !== this.wasUnheard) this.show();
    this.wasSlow = slow;
    this.wasUnheard = unheard;
    if (slow || this.status) this.nudge();
    else this.nudgedFrom = 0;
  }

  // Some hosts (Shiny) hold messages of the session back until one of a view comes. Ever more
  // seldom, since others keep all that are sent while a cell runs.
  nudge() {
    this.nudgedFrom ||= now();
    if (now() < this.nudgeAt) return;
    this.nudgeAt = now() + Math.max(BUSY_AFTER, (now() - this.nudgedFrom) / 4);
    this.waiting.delete(this.send("ready", { again: true })); // not answered
  }

  isUnheard() {
    return !this.heard && now() - this.begunAt > UNHEARD_AFTER;
  }

  isSlow() {
    return [...this.waiting.values()].some((time) => now() - time > BUSY_AFTER);
  }

  show() {
    const { state, image, one, isVideo: video } = this;
    this.undo.disabled = !state.can_undo;
    this.redo.disabled = !state.can_redo;
    this.undo.title = `undo${state.undo ? `: ${state.undo}` : ""} (Ctrl+Z)`;
    this.redo.title = `redo${state.redo ? `: ${state.redo}` : ""} (Ctrl+Y)`;
    this.commit.disabled = this.remove.disabled = !one;
    this.choices.forEach((button, at) => {
      button.hidden = video || !one || one.candidates < 2;
      light(button, one?.candidate === at);
    });
    this.all.hidden = this.save.hidden = video;
    light(this.all, !!this.layers);
    light(this.lines, this.outline);
    light(this.tags, this.labels);
    this.likes.forEach((button, at) => light(button, this.example === 1 - at));
    this.clear.hidden = !this.examples.length;
    const many = !video && image?.count > 1;
    for (const part of [this.queue, this.previous, this.following, this.count]) part.hidden = !many;
    if (many) {
      this.count.textContent = `${image.index + 1} of ${image.count}: ${image.name}`;
      this.previous.disabled = image.index === 0;
      this.following.disabled = image.index === image.count - 1;
    }
    if (video) {
      this.counter.textContent = `${this.frame + 1} / ${image.frames}`;
      this.player.textContent = this.playing ? "❚❚" : "▶";
      this.halt.hidden = !this.running;
      this.forward.disabled = this.back.disabled = !state.objects.length || !!this.running;
    }
    const kept = state.unsaved ? `Not saved: ${state.unsaved}`
      : state.read_only ? `Read only: ${state.read_only}` : "";
    const text = this.gone ? "The kernel was restarted: run the cell again, your work is kept."
      : this.isUnheard() ? "No answer so far: the kernel is busy, or this host does not carry the widget's messages."
      : this.failed || (this.status && `${this.status}…`) || (this.isSlow() ? "busy…"
      : image ? kept || this.note : "waiting for the kernel…");
    this.badge.textContent = text;
    this.badge.hidden = !text;
    this.badge.classList.toggle("srx-error", !!this.failed || this.gone || this.isUnheard());
    this.meter.style.width = this.part === null ? "0" : `${100 * this.part}%`;
  }

  listObjects() {
    const { objects, current } = this.state;
    if (this.list.querySelector("input")) return; // a name is edited
    // Equal chips stay: a double click needs that of its first click.
    const key = JSON.stringify(objects.map((one) => [one.id, one.name, one.color, one.score]));
    if (key === this.listed) {
      objects.forEach((_, at) => light(this.list.children[at], at === current));
      return;
    }
    this.listed = key;
    this.list.replaceChildren();
    if (!objects.length) {
      this.make("span", "hint", this.list, {
        textContent: "click: in · right click, long touch: out · drag: box · Enter: next object",
      });
    }
    objects.forEach((one, index) => {
      const chip = this.make("span", index === current ? "chip on" : "chip", this.list, {
        title: `${one.name}: click to choose${index < 9 ? ` (${index + 1})` : ""}, double click to rename`,
        onclick: () => index === this.state.current || this.send("select", { object: one.id }),
        ondblclick: () => this.rename(name, one),
      });
      const swatch = this.make("i", "", chip);
      swatch.style.background = css(one.color);
      const name = this.make("b", "", chip, { textContent: one.name });
      if (one.score !== null) this.make("small", "", chip, { textContent: one.score.toFixed(2) });
      this.button(chip, "×", `delete ${one.name}`, (event) => {
        event.stopPropagation();
        this.send("delete", { object: one.id });
      });
    });
  }

  rename(name, one) {
    const field = this.make("input", "", name.parentElement, { type: "text", value: one.name });
    name.replaceWith(field);
    field.focus();
    field.select();
    const done = () => {
      const text = field.value.trim();
      field.replaceWith(name);
      if (text && text !== one.name) this.send("rename", { object: one.id, name: text });
      this.listObjects();
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") field.value = "";
      if (["Enter", "Escape"].includes(event.key)) field.blur();
    });
    field.addEventListener("blur", done, { once: true });
    field.addEventListener("click", (event) => event.stopPropagation());
  }

  whole() {
    if (!this.image) return 1;
    const { clientWidth, clientHeight } = this.canvas;
    return Math.min(clientWidth / this.image.width, clientHeight / this.image.height);
  }

  fit() {
    this.fitted = true;
    this.resize();
  }

  resize() {
    const width = this.stage.clientWidth || 640;
    const { width: w, height: h } = this.image || { width: 16, height: 9 };
    const most = Math.min(MAX_HEIGHT, Math.max(240, innerHeight * 0.8));
    const height = Math.round(Math.max(80, Math.min((width * h) / w, most)));
    this.ratio = devicePixelRatio || 1;
    const [cw, ch] = [Math.round(width * this.ratio), Math.round(height * this.ratio)];
    this.canvas.style.height = `${height}px`;
    if (this.canvas.width !== cw || this.canvas.height !== ch) {
      this.canvas.width = cw;
      this.canvas.height = ch;
    }
    if (this.fitted && this.image) {
      this.scale = this.whole();
      this.left = (this.canvas.clientWidth - w * this.scale) / 2;
      this.top = (this.canvas.clientHeight - h * this.scale) / 2;
    }
    this.draw();
  }

  // Pixels of a grid of some width that an outline is wide.
  reach(width) {
    return Math.max(1, Math.round(width / 700));
  }

  // Draw all masks into one canvas, which a hover finds ready.
  compose() {
    const { image, isVideo: video } = this;
    if (!image) return;
    const [width, height] = video ? image.preview : image.grid;
    const canvas = (this.composed ||= newCanvas());
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    for (const { one, head, bits, cached } of video ? this.frameMasks() : this.imageMasks()) {
      const fill = this.outline ? 0 : this.opacity;
      const key = `${one.color},${fill}`;
      let paint = cached?.key === key ? cached.paint : undefined;
      if (paint === undefined) {
        paint = painted(head, bits, one.color, fill, 1, this.reach(width));
        if (!video) this.paints.set(one.mask, { key, paint });
      }
      if (paint) context.drawImage(paint.canvas, paint.x, paint.y);
    }
    this.draw();
  }

  *imageMasks() {
    for (const one of this.state.objects) {
      const known = this.bits.get(one.mask);
      if (known) yield { one, ...known, cached: this.paints.get(one.mask) };
    }
  }

  *frameMasks() {
    const kept = this.frames.get(this.frame);
    if (!kept) return;
    for (const [at, head] of kept.masks.entries()) {
      const one = this.state.objects.find((other) => other.id === head.object);
      if (one) yield { one, head, bits: kept.buffers[at] };
    }
  }

  // Let a canvas take pixels of the image.
  toImage(context) {
    const step = this.scale * this.ratio;
    context.setTransform(step, 0, 0, step, this.left * this.ratio, this.top * this.ratio);
    context.imageSmoothingEnabled = step < 2;
  }

  // Draw what lies under a hover and over it.
  draw() {
    const { image, ratio } = this;
    const under = this.sheet("under");
    const over = this.sheet("over");
    if (image && this.bitmap) {
      const { width, height } = image;
      this.toImage(under);
      under.drawImage(this.bitmap, 0, 0, width, height);
      if (this.layers) under.drawImage(this.layers.canvas, 0, 0, width, height);
      if (this.composed) {
        const step = image.step || 1;
        const [w, h] = this.isVideo ? [width, height]
          : [this.composed.width * step, this.composed.height * step];
        under.drawImage(this.composed, 0, 0, w, h);
      }
      over.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.drawPrompts(over);
      if (this.labels) this.drawNames(over);
    }
    this.blend();
  }

  // A cleared canvas as large as the visible one.
  sheet(name) {
    const canvas = (this[name] ||= newCanvas());
    canvas.width = this.canvas.width; // which clears it
    canvas.height = this.canvas.height;
    return canvas.getContext("2d");
  }

  // Draw what is ready, and the hover.
  blend() {
    const { context, canvas, image } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(this.under, 0, 0);
    if (this.hover && image) {
      const { canvas: mask, x, y, size } = this.hover;
      const [a, b] = [image.width / size[0], image.height / size[1]];
      this.toImage(context);
      context.drawImage(mask, x * a, y * b, mask.width * a, mask.height * b);
      context.setTransform(1, 0, 0, 1, 0, 0);
    }
    context.drawImage(this.over, 0, 0);
  }

  rectangle(context, [x0, y0, x1, y1], color, dashes = []) {
    const { scale, left, top } = this;
    const rest = [x0 * scale + left, y0 * scale + top, (x1 - x0) * scale, (y1 - y0) * scale];
    for (const [strokeStyle, lineWidth, dash] of [["#000a", 3.5, []], [color, 1.75, dashes]]) {
      Object.assign(context, { strokeStyle, lineWidth });
      context.setLineDash(dash);
      context.strokeRect(...rest);
    }
    context.setLineDash([]);
  }

  drawPrompts(context) {
    const { scale, left, top, drag, one } = this;
    const here = (mark, at) => mark[at] === undefined || mark[at] === this.frame;
    for (const box of one?.boxes.filter((each) => here(each, 4)) || [])
      this.rectangle(context, box, css(one.color));
    for (const { box, label } of this.examples)
      this.rectangle(context, box, label ? "#ffd60a" : "#f03e3e", [5, 3]);
    for (const [x, y, label] of one?.points.filter((each) => here(each, 3)) || []) {
      context.beginPath();
      context.arc(x * scale + left, y * scale + top, 5, 0, 7);
      context.fillStyle = label ? "#39d353" : "#f03e3e";
      context.strokeStyle = "#fff";
      context.lineWidth = 2;
      context.fill();
      context.stroke();
    }
    if (this.aimed) {
      const { x, y } = this.aimed;
      const arm = 9 / scale;
      this.rectangle(context, [x - arm, y, x + arm, y], "#fff");
      this.rectangle(context, [x, y - arm, x, y + arm], "#fff");
    }
    if (drag?.moved && !drag.pan)
      this.rectangle(context, around(drag.at, drag.to), "#fff", [4, 3]);
  }

  drawNames(context) {
    const { scale, left, top, image } = this;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const { one, head } of this.isVideo ? this.frameMasks() : this.imageMasks()) {
      const [x0, y0, x1, y1] = head.box;
      if (x1 <= x0) continue;
      const [a, b] = [image.width / head.size[0], image.height / head.size[1]];
      const y = Math.max(y0 * b * scale + top - 10, 10);
      const width = context.measureText(one.name).width + 10;
      if ((x1 - x0) * a * scale * 3 < width) continue; // too small to be named
      const middle = ((x0 + x1) / 2) * a * scale + left;
      const from = clip(middle - width / 2, 0, Math.max(this.canvas.clientWidth - width, 0));
      const [red, green, blue] = one.color;
      context.fillStyle = css(one.color, 0.92);
      context.beginPath();
      context.roundRect(from, y - 9, width, 18, 5);
      context.fill();
      context.fillStyle = red * 0.3 + green * 0.59 + blue * 0.11 > 140 ? "#000" : "#fff";
      context.fillText(one.name, from + 5, y + 0.5);
    }
  }

  // ---- everything mode

  layerCanvas(chosen) {
    const { labels, size } = this.layers;
    const canvas = newCanvas(...size);
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(...size);
    const out = new Uint32Array(pixels.data.buffer);
    const width = size[0];
    for (let at = 0; at < labels.length; at++) {
      const label = labels[at];
      if (!label) continue;
      const hue = (label * 137.5) % 360;
      const part = (shift) => Math.round(140 + 100 * Math.cos(((hue + shift) * Math.PI) / 180));
      const edge = labels[at + 1] !== label || labels[at + width] !== label;
      out[at] = u32([part(0), part(240), part(120)], edge ? 1 : label === chosen ? 0.75 : 0.28);
    }
    context.putImageData(pixels, 0, 0);
    return canvas;
  }

  highlight(at) {
    const { layers, image } = this;
    const [width, height] = layers.size;
    const label = this.inside(at)
      ? layers.labels[Math.floor((at.y * height) / image.height) * width +
          Math.floor((at.x * width) / image.width)]
      : 0;
    if (label === layers.at) return;
    layers.at = label;
    layers.canvas = this.layerCanvas(label);
    this.draw();
  }
}

function render({ model, el }) {
  const root = document.createElement("div");
  el.append(root);
  const front = new Front(model, root);
  root.front = front; // for tests
  front.listObjects();
  return () => front.end();
}

export default { render };
