// The front end of interactive segmentation. Data goes one way: an event, the next state, what is
// drawn. Parts get the state and send gestures, and do not know each other.

import { Badge, Bar, Rail, Status, Top } from "./bars.js";
import { Broken, Empty, ExportDialog, ImportDialog, KeysDialog, ProjectMenu, SearchMenu, SuccessorDialog } from "./dialogs.js";
import { icon, light, make, now } from "./dom.js";
import { Keys, isField } from "./keys.js";
import { Panel } from "./panel.js";
import { Stage, Zoom } from "./stage.js";
import { START, currentOf, fineMasks, isClip, isEvent, isLeftOut, objectOf, reduce, seenBox } from "./state.js";
import { Strip } from "./timeline.js";
import { isSharp, missingTiles, withTiles } from "./tiles.js";
import { Tools } from "./tools.js";
import { SocketModel, Wire } from "./wire.js";
import { WORDS } from "./words.js";

const RATE = 12; // frames per second of "play"
const PAN = 40; // CSS pixels of an arrow
const SCHEME = "sam_rlx colours";
const SEEN = "sam_rlx zoom";
const QUIET = new Set(["hover", "ready", "frame", "thumbnail", "tiles", "image"]); // what leaves a sentence standing

export class Front {
  state = START;
  ends = [];
  buttons = []; // [element, name of its row, what follows the title]
  titles = new Map();
  frameSeq = 0;
  frameWanted = null;
  thumbSeq = 0;
  thumbsWanted = []; // numbers of the images whose pictures are seen

  // `host` is what a page can do beside messages; null in a notebook.
  constructor(model, root, host) {
    Object.assign(this, { root, host });
    this.wire = new Wire(model, (head, buffers, asked) => this.hear(head, buffers, asked),
      () => this.dispatch({ type: "linked", link: "gone" }));
    this.coarse = matchMedia("(pointer: coarse)").matches;
    this.build();
    this.tools = new Tools(this);
    this.watch();
    this.paint(host ? localStorage.getItem(SCHEME) || "auto" : "auto");
    this.stage.measure();
    this.flush();
    if (!host) this.wire.ready();
  }

  build() {
    this.stage = new Stage(this);
    this.menu = new ProjectMenu(this);
    this.search = new SearchMenu(this);
    this.export = new ExportDialog(this);
    this.importing = new ImportDialog(this);
    this.help = new KeysDialog(this);
    this.successor = new SuccessorDialog(this);
    this.top = new Top(this);
    this.app = make("div.app");
    const [rail, panel, strip, status] = [new Rail(this), new Panel(this), new Strip(this), new Status(this)];
    const over = [new Zoom(this), new Bar(this), new Badge(this), new Broken(this), new Empty(this)];
    this.keys = new Keys(this);
    this.parts = [this.keys, this.stage, this.top, rail, panel, strip, status, ...over];
    this.stage.element.append(...over.map((part) => part.element));
    this.app.append(this.top.element, rail.element, this.stage.element, panel.element,
      strip.element, status.element);
    this.root.append(...(this.host ? this.host.inputs : []), this.app, this.menu.element,
      this.search.element, this.export.element, this.importing.element, this.help.element, this.successor.element);
  }

  watch() {
    this.listen(this.root, "pointerdown", () => light(this.root, "tabbed", false));
    // Buttons take no focus from the mouse: keys go on to be heard.
    this.listen(this.root, "mousedown", (event) => {
      const { target } = event;
      if (!target.closest("button, [role=option]") || target.closest("dialog, .srx-menu, input")) return;
      event.preventDefault();
      this.focus();
    });
    if (this.host) this.listen(window, "pagehide", () => this.remember());
    const observer = new ResizeObserver(() => this.stage.measure());
    observer.observe(this.stage.element);
    this.ends.push(() => observer.disconnect());
    const timer = setInterval(() => this.tick(), 250);
    this.ends.push(() => clearInterval(timer));
  }

  listen(target, kind, handler, options) {
    target.addEventListener(kind, handler, options);
    this.ends.push(() => target.removeEventListener(kind, handler, options));
  }

  end() {
    this.wire.end();
    for (const end of this.ends) end();
    this.play(false);
    this.over = true;
  }

  // The zoom of a page outlives a reload in its tab: the scale, and what is in the middle.
  remember() {
    const { image, zoom } = this.state;
    if (!image || zoom.fitted) return;
    const { u, v } = this.stage.center;
    const { x, y } = this.stage.at(u, v);
    sessionStorage.setItem(SEEN, JSON.stringify([image.key, zoom.scale, x, y]));
  }

  recall() {
    const [key, scale, x, y] = JSON.parse(sessionStorage.getItem(SEEN) || "[]");
    if (key !== this.state.image.key) return;
    sessionStorage.removeItem(SEEN);
    this.flush();
    this.stage.measure();
    const { u, v } = this.stage.center;
    this.zoom(scale / this.state.zoom.scale, { u, v });
    this.shift(u - x * scale, v - y * scale);
  }

  // ---- event, state, drawing

  dispatch(event) {
    this.state = reduce(this.state, event);
    if (this.planned || this.over) return;
    this.planned = requestAnimationFrame(() => this.flush());
  }

  choose(values) {
    const { state } = this;
    if (Object.keys(values).some((name) => state[name] !== values[name]))
      this.dispatch({ type: "chosen", values });
  }

  // Draw what has changed.
  flush() {
    if (this.planned) cancelAnimationFrame(this.planned);
    this.planned = 0;
    const { drawn } = this.wire;
    const here = ({ fields: { frame = this.state.frame } }) => frame === this.state.frame;
    if (drawn.length || this.state.pending.length)
      this.state = { ...this.state, pending: drawn.filter(here) };
    for (const part of this.parts) part.draw(this.state);
    this.askFine();
    this.askTiles();
    const hovered = this.state.hover?.seq;
    if (!hovered || hovered === this.painted?.seq) return;
    this.painted = { seq: hovered, at: now() };
    this.root.dispatchEvent(new Event("painted"));
  }

  tick() {
    const { wire, state } = this;
    this.stage.measure();
    wire.tick(!!state.image || !!this.host, !!state.status.text);
    const { slow, unheard } = wire;
    if (slow !== state.slow || unheard !== state.unheard) this.dispatch({ type: "ticked", slow, unheard });
    if (!this.host) this.follow();
  }

  // What tests see, and all they see.
  peek({ masks = false, keys = false } = {}) {
    this.flush();
    const { state, wire } = this;
    const { image, zoom: { scale, left, top } } = state;
    if (!image) return null;
    const shown = isClip(state) ? state.frames.get(state.frame)?.bitmap : state.bitmap;
    const found = {
      name: image.name, index: image.index, count: image.count, key: image.key, kind: image.kind,
      scale, left, top, ratio: state.stage.ratio, tool: state.tool, saved: !state.unsaved, n: state.n,
      objects: state.objects.map((one) => ({ ...one, points: one.points.length, marks: one.points })),
      current: state.current, view: wire.id,
      drawn: !!shown, tiles: state.tiles.size, sharp: isSharp(state), busy: !shown || state.objectless || wire.busy || !!wire.inflating || !!state.status.text || state.running,
      hover: state.hover && state.hover.head.size, pointed: state.pointed, aimed: state.aimed,
      opacity: state.opacity, outline: state.outline, names: state.names, radius: state.radius,
      hidden: [...state.hidden], chosen: [...state.chosen], playing: state.playing,
      broken: state.broken, classes: state.project.classes, nextClass: state.classNumber,
      open: [...this.root.querySelectorAll("dialog[open], .srx-menu:not([hidden])")].length, error: state.error, link: state.link, waiting: wire.waiting.size, layer: state.layer?.count ?? 0,
      frame: state.frame, frames: image.frames ?? 1, running: state.running,
      shown: isClip(state) ? state.frames.get(state.frame)?.masks.length ?? 0 : state.masks.size,
      path: state.drag?.path, dragged: state.drag ? now() - state.drag.since : null, painted: this.painted,
      outbox: wire.model.outbox?.waiting.size ?? 0,
      items: state.project.items.map(({ name, state: at, objects }) => [name, at, objects]),
    };
    if (keys) found.keys = this.keys.rows;
    if (masks) found.masks = state.objects.map((one) => {
      const { head, bits } = state.masks.get(one.mask);
      return [head, [...bits]];
    });
    return found;
  }

  // ---- messages

  send(type, fields = {}, buffers = undefined) {
    if (!QUIET.has(type) && (this.state.note || this.state.error))
      this.dispatch({ type: "told", text: "" });
    const seq = this.wire.send(type, fields, buffers);
    this.dispatch({ type: "chosen", values: {} });
    return seq;
  }

  where() {
    return isClip(this.state) ? { frame: this.state.frame } : {};
  }

  objectOf(number) {
    return objectOf(this.state, number);
  }

  async hear(head, buffers, asked) {
    const { type } = head;
    if (type === "error" && asked?.type === "thumbnail") // an image that cannot be read
      return this.on_thumbnail(asked.fields, []);
    if (type === "error" && asked?.type === "import_as" && this.importing.element.open)
      return this.importing.fail(head.text);
    if (type === "error" && asked?.type === "tiles") this.noFine = true; // no more of them
    this.dispatch({ type: "heard", good: type !== "error" && asked && !QUIET.has(type) });
    if (type === "hover" && head.answer.seq !== this.tools.hoverSeq) return;
    if (isEvent(type)) this.dispatch({ type, head, buffers });
    const effect = this[`on_${type}`];
    if (effect) await effect.call(this, head, buffers);
    this.tools.ask();
    this.askThumb();
  }

  async on_image(head, [file]) {
    if (this.host) this.recall();
    if (head.kind === "video") this.goto(this.host?.frame ?? this.state.frame, true);
    // Before the image is decoded: a reload in the meantime comes back to it.
    this.host?.shows(head.key, isClip(this.state) ? this.state.frame : null);
    if (head.kind === "video") return;
    const bitmap = await createImageBitmap(new Blob([file]));
    this.dispatch({ type: "decoded", head, bitmap });
  }

  async on_tiles(head, files) {
    if (!head.tiles.length) return;
    this.tiling = true;
    const parts = files.slice(0, head.tiles.length);
    const bitmaps = await Promise.all(parts.map((file) => createImageBitmap(new Blob([file]))));
    this.tiling = false;
    this.dispatch({ type: "tiled", tiles: withTiles(this.state, head, bitmaps) });
  }

  on_layer({ count, size }, [labels]) {
    const layer = count ? { labels: new Uint16Array(labels.buffer), size, count } : null;
    this.dispatch({ type: "layered", layer });
  }

  async on_frame(head, [file, ...buffers]) {
    const bitmap = await createImageBitmap(new Blob([file]));
    this.dispatch({ type: "framed", head, buffers, bitmap });
    this.askFrame();
  }

  on_thumbnail(head, [file]) {
    const address = file ? URL.createObjectURL(new Blob([file], { type: "image/jpeg" })) : "";
    this.dispatch({ type: "pictured", head, address });
  }

  on_file(head, [contents]) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([contents], { type: head.mime }));
    link.download = head.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  on_import(head) {
    const { title = head.form } = this.state.about.forms.find(({ name }) => name === head.form) || {};
    this.importing.tell(head, title.split(": ")[0]);
    if (head.added) this.say(WORDS.brought(head.objects));
  }

  on_loaded({ objects, absent, passed_over: rest }) {
    this.dispatch({ type: "told", text: WORDS.loaded(objects, absent, rest) });
  }

  // What can be done about what a note says: what was not found may be found with a lower threshold;
  // objects of images whose content has changed may be kept.
  on_note({ text, about, best, threshold }) {
    if (about === "changed") {
      const actions = [[WORDS.keepChanged, true], [WORDS.holdChanged, false]]
        .map(([title, on]) => ({ title, act: () => this.send("keep_changed", { on }) }));
      return this.dispatch({ type: "told", text, actions });
    }
    const lower = Math.floor(20 * best) / 20;
    if (about !== "text" || !(lower > 0 && lower < threshold)) return;
    const act = () => { this.choose({ threshold: lower }); this.find(); };
    this.dispatch({ type: "told", text, actions: [{ title: WORDS.lower(lower), act }] });
  }

  on_welcome(head) {
    this.host?.welcome(head);
  }

  on_opened(head) {
    const { current, since, image } = this.state;
    this.wire.waiting.clear();
    this.host.opened(head);
    this.wire.ready();
    // Before what is sent again; after the next break it would come behind that.
    if (current !== null && image?.key === head.item)
      this.wire.send("select", { object: current, since }, undefined, false);
    this.host.resend();
  }

  // ---- buttons and titles

  // A button that does what a row of the table, or a word of `act`, says.
  button(what, name, { icon: picture = null, small = false, text: words = "" } = {}) {
    const children = picture ? [icon(picture, small)] : [];
    if (words) children.push(make("span", { textContent: words }));
    const element = make(what, { type: "button", onclick: () => this.act(name) }, ...children);
    this.buttons.push([element, name]);
    return element;
  }

  entitle(rows) {
    this.titles = new Map(rows.map((row) => [row.name, row]));
    for (const [element, name] of this.buttons) {
      element.row = this.titles.get(name);
      this.entitleOne(element);
    }
  }

  entitleOne(element, more = "") {
    const { row } = element;
    if (!row) return;
    const keys = [...row.keys, ...row.mouse].join(", ");
    const title = more ? `${row.title}: ${more}` : row.title;
    element.ariaLabel = title;
    element.ariaKeyShortcuts = row.keys[0]?.replace("Ctrl", "Control") || "";
    element.title = keys ? `${title} (${keys})` : title;
  }

  // ---- what keys and buttons do, by the names of rows. False: it was not for here.

  // Whether the session has a row of this name.
  can(name) {
    return this.titles.has(name);
  }

  act(name, number, target) {
    const own = this.acts[name];
    return own ? own.call(this, number, target) : this.send(name);
  }

  acts = {
    undo() { if (this.state.canUndo) this.send("undo"); },
    redo() { if (this.state.canRedo) this.send("redo"); },
    commit(_, target) {
      if (target?.matches?.("input")) return false;
      if (this.state.tool === "split") return this.acts.split_parts.call(this);
      if (this.state.current !== null) this.send("commit");
      return true;
    },
    delete() {
      const { point } = this.tools;
      if (point) this.send("remove_point", { number: point.number });
      else if (currentOf(this.state)) this.send("delete");
    },
    cancel() { return this.escape(); },
    candidate(number) {
      const one = currentOf(this.state);
      if (!one || one.candidates < 2) return;
      const index = number ?? (one.candidate + 1) % one.candidates;
      if (index < one.candidates) this.send("candidate", { index });
    },
    select(number) {
      const one = this.state.objects[number];
      if (one) this.send("select", { object: one.id });
    },
    set_class(number) {
      const found = this.state.project.classes.find(({ digit }) => digit === `${number + 1}`);
      if (found) this.send("set_class", { class_number: found.number });
    },
    lock() {
      const one = currentOf(this.state);
      if (one) this.send("lock", { object: one.id, on: !one.locked });
    },
    keep_found() { if (this.state.layer) this.send("keep_found"); },
    repeat_from() { if (this.state.image && !isClip(this.state)) this.send("repeat_from"); },
    merge() {
      const { current, chosen } = this.state;
      const objects = [...(current === null ? [] : [current]), ...chosen];
      if (objects.length < 2) return this.say(WORDS.mergeHow);
      this.choose({ chosen: new Set() });
      return this.send("merge", { objects });
    },
    brush() { this.choose({ tool: "brush", example: null }); },
    eraser() { this.choose({ tool: "eraser", example: null }); },
    lasso() { this.choose({ tool: "lasso", example: null }); },
    split(_, target) {
      if (currentOf(this.state)) this.choose({ tool: this.state.tool === "split" && !target ? "click" : "split" });
    },
    split_parts() {
      this.choose({ tool: "click" });
      if (currentOf(this.state)) this.send("split", this.where());
    },
    fill() { if (currentOf(this.state)) this.send("fill", this.where()); },
    smooth() { if (currentOf(this.state)) this.send("smooth", this.where()); },
    smaller() { this.resize(1 / 1.25); },
    larger() { this.resize(1.25); },
    next_check() { this.goCheck(); },
    gone() { if (currentOf(this.state)) this.send("gone", this.where()); },
    right() { if (currentOf(this.state)) this.send("right", this.where()); },
    remove_masks() { if (currentOf(this.state)) this.send("remove_masks", this.where()); },
    split_track() { if (currentOf(this.state)) this.send("split_track", this.where()); },
    next_object() { this.step(1); },
    previous_object() { this.step(-1); },
    rename() { this.rename(null, this.state.current); },
    everything() {
      if (this.state.image?.kind === "image") this.send("everything", { on: !this.state.layer });
    },
    text() {
      if (!this.state.image?.texts) return false;
      this.top.words.focus();
      return this.top.words.select();
    },
    text_all: () => false, // the field has it; elsewhere it is the notebook's
    export_as() { if (this.state.image) this.export.ask(); },
    done() {
      const { image, project } = this.state;
      if (!image || isClip(this.state) || !this.can("done")) return;
      this.send("done", { on: project.items[image.index]?.state !== "done" });
    },
    done_next() {
      if (!this.state.image || isClip(this.state) || !this.can("done")) return;
      this.send("done", { on: true });
      this.turn(1);
    },
    leave_out() {
      if (this.state.image && this.can("leave_out")) this.send("leave_out", { on: !isLeftOut(this.state) });
    },
    next() { this.turn(1); },
    previous() { this.turn(-1); },
    tool_click() {
      if (this.state.layer) this.send("everything", { on: false });
      this.choose({ tool: "click", example: null });
    },
    hand(_, target) {
      if (!target) return this.choose({ tool: this.state.tool === "hand" ? "click" : "hand" });
      if (isClip(this.state)) return this.play(!this.state.playing);
      return this.choose({ moving: true });
    },
    play() { this.play(!this.state.playing); },
    frame_back() { this.goto(this.state.frame - 1); },
    frame_on() { this.goto(this.state.frame + 1); },
    frames_back() { this.goto(this.state.frame - 10); },
    frames_on() { this.goto(this.state.frame + 10); },
    first_frame() { this.goto(0); },
    last_frame() { this.goto((this.state.image?.frames ?? 1) - 1); },
    propagate() { this.track(false); },
    track() {
      if (isClip(this.state) && this.state.objects.length && !this.state.running)
        this.send("track", this.where());
    },
    track_back() { this.track(true); },
    outlines() { this.choose({ outline: !this.state.outline }); },
    names() { this.choose({ names: !this.state.names }); },
    hide() {
      if (this.state.current !== null) this.dispatch({ type: "hid", number: this.state.current });
    },
    hide_others() {
      const { hidden, objects, current } = this.state;
      const others = objects.map((one) => one.id).filter((id) => id !== current);
      this.choose({ hidden: new Set(hidden.size ? [] : others) });
    },
    zoom_in() { this.zoom(1.25, this.stage.center); },
    zoom_out() { this.zoom(0.8, this.stage.center); },
    fit() { this.dispatch({ type: "fit" }); },
    one_to_one() { this.zoom(1 / (this.state.zoom.scale * this.state.stage.ratio), this.stage.center); },
    full() {
      if (document.fullscreenElement) document.exitFullscreen();
      else this.root.parentElement.requestFullscreen?.();
    },
    help() { this.help.ask(); },
    pan_left() { this.pan(PAN, 0); },
    pan_right() { this.pan(-PAN, 0); },
    pan_up() { this.pan(0, PAN); },
    pan_down() { this.pan(0, -PAN); },
    aim_left() { this.tools.aim(PAN, 0); },
    aim_right() { this.tools.aim(-PAN, 0); },
    aim_up() { this.tools.aim(0, PAN); },
    aim_down() { this.tools.aim(0, -PAN); },
    inside() { this.tools.clickAimed(1); },
    outside() { this.tools.clickAimed(0); },
  };

  // One step back: what lies over the view, a drag, a tool, what was found, what is not kept.
  escape() {
    const { state } = this;
    const { activeElement } = this.root.getRootNode();
    for (const { element } of [this.export, this.importing, this.help, this.successor]) if (element.open) return element.close();
    if (this.menu.close() || this.search.close()) return true;
    const field = this.root.querySelector(".srx-rename");
    if (field) return field.give();
    if (isField(activeElement) && this.root.contains(activeElement)) return this.focus();
    if (state.drag) return this.choose({ drag: null });
    if (state.example !== null) return this.choose({ example: null });
    if (state.tool !== "click") return this.choose({ tool: "click" });
    if (state.running || state.status.part !== null) return this.wire.send("stop");
    if (state.layer) return this.send("everything", { on: false });
    if (state.aimed) this.choose({ aimed: null });
    if (state.current !== null) return this.send("cancel");
    this.focus();
    return true;
  }

  // Where keys are heard: on the image, unless the focus is in the view.
  focus() {
    this.stage.canvas.focus({ preventScroll: true });
  }

  step(by) {
    const { objects, current } = this.state;
    if (!objects.length) return;
    const from = this.wire.chosen(current); // two quick presses are two steps
    const at = objects.findIndex((one) => one.id === from);
    const next = at < 0 ? (by > 0 ? 0 : objects.length - 1) : (at + by + objects.length) % objects.length;
    this.send("select", { object: objects[next].id });
  }

  // ---- images

  turn(by) {
    const { image, broken, project } = this.state;
    if (!image || isClip(this.state)) return;
    let index = (broken ?? image.index) + by;
    for (; ["unreadable", "left out"].includes(project.items[index]?.state); index += by)
      if (project.items[index].reason) this.say(WORDS.stepped(project.items[index]));
    if (index >= 0 && index < image.count && index !== image.index) this.send("image", { index });
    else this.choose({ broken: null });
  }

  goImage(index) {
    const item = this.state.project.items[index];
    if (item.state === "unreadable") this.choose({ broken: index });
    else if (index === this.state.image.index) this.choose({ broken: null });
    else this.send("image", { index });
  }

  // Ask for the pictures of the queue that are seen, one after the other.
  wantThumbs(indices) {
    this.thumbsWanted = indices;
    this.askThumb();
  }

  askThumb() {
    const { state, wire } = this;
    if (wire.waiting.has(this.thumbSeq) || wire.slow || !state.bitmap || state.link !== "open") return;
    const index = this.thumbsWanted.find((at) => !state.thumbs.has(at));
    if (index !== undefined) this.thumbSeq = wire.send("thumbnail", { index });
  }

  // Ask for masks at full resolution where they are seen, with a quarter of the view around.
  askFine() {
    const { state, wire } = this;
    if (this.noFine || fineMasks(state) !== null || wire.waiting.has(this.fineSeq) || state.link !== "open") return;
    const [x0, y0, x1, y1] = seenBox(state);
    const [a, b] = [(x1 - x0) / 4, (y1 - y0) / 4];
    if (a > 0 && b > 0)
      this.fineSeq = wire.send("tiles", { level: 0, box: [x0 - a, y0 - b, x1 + a, y1 + b] });
  }

  // Ask for parts of a large image where one looks nearer than the small image.
  askTiles() {
    const { state, wire } = this;
    if (this.noFine || this.tiling || wire.waiting.has(this.tileSeq) || !state.bitmap || state.link !== "open") return;
    const missing = missingTiles(state);
    if (missing) this.tileSeq = wire.send("tiles", { ...missing, box: seenBox(state), masks: false });
  }

  // ---- words and boxes

  boxed(box) {
    const { example, examples } = this.state;
    if (example === null) return this.send("box", { box, ...this.where() });
    this.choose({ examples: [...examples, { box, label: example }] });
    return this.find();
  }

  get words() {
    return this.top.words.value.trim();
  }

  get least() {
    const { threshold } = this.state;
    return threshold === null ? {} : { threshold };
  }

  get marked() {
    const { examples } = this.state;
    return { boxes: examples.map(({ box }) => box), box_labels: examples.map(({ label }) => label) };
  }

  find() {
    const { words, least } = this;
    const { examples } = this.state;
    if (isClip(this.state)) return words && this.send("text", { text: words, ...this.where(), ...least });
    if (!words && !examples.length) return;
    return this.send("text", { text: words, ...this.marked, ...least });
  }

  // In all images, or through the whole clip.
  findAll() {
    const { words: text, least, state } = this;
    if (!state.image?.texts) return;
    if (isClip(state)) { if (text) this.send("track_text", { text }); return; }
    if (text || state.examples.length) this.send("text", { text, scope: "all", ...this.marked, ...least });
  }

  // Edit the name of an object in its place: where it was clicked, else in the list or the bar.
  rename(place, number) {
    const one = this.objectOf(number);
    if (!one) return;
    const seen = [...this.root.querySelectorAll(".srx-object.srx-on .srx-n, .srx-pick .srx-n")]
      .find((element) => element.offsetParent);
    this.write(place || seen, one.name, (name) => this.send("rename", { object: number, name }));
  }

  // Let a person write in a place; `act` gets another text, also none if it may be `empty`; `end` is
  // called in any case.
  write(place, before, act, end = () => {}, empty = false) {
    if (!place || place.querySelector("input")) return;
    const field = make("input.rename", { type: "text", value: before, before,
      ariaLabel: WORDS.renameField, maxLength: 200 });
    const done = () => {
      field.remove();
      place.textContent = before;
      place.parentElement.drawnFrom = null; // others may have written there meanwhile
      end();
      const words = field.value.trim();
      if ((words || empty) && words !== before) act(words);
      this.dispatch({ type: "chosen", values: {} });
    };
    field.give = () => { field.value = before; field.blur(); this.focus(); };
    field.addEventListener("blur", done, { once: true });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.stopPropagation(); field.blur(); this.focus(); }
    });
    for (const kind of ["click", "dblclick"]) field.addEventListener(kind, (event) => event.stopPropagation());
    place.replaceChildren(field);
    field.focus();
    field.select();
  }

  // An object beside the current one, for what takes several.
  chooseAlso(number) {
    const chosen = new Set(this.state.chosen);
    if (!chosen.delete(number)) chosen.add(number);
    this.choose({ chosen });
  }

  // ---- frames

  goto(frame, force = false) {
    const before = this.state.frame;
    this.dispatch({ type: "went", frame });
    if (!isClip(this.state) || (this.state.frame === before && !force)) return;
    if (!this.state.frames.has(this.state.frame)) this.frameWanted = this.state.frame;
    this.askFrame();
    this.host?.shows(this.state.image.key, this.state.frame);
  }

  askFrame() {
    if (this.frameWanted === null || this.wire.waiting.has(this.frameSeq)) return;
    this.frameSeq = this.send("frame", { frame: this.frameWanted });
    this.frameWanted = null;
  }

  play(on) {
    clearInterval(this.playTimer);
    this.choose({ playing: on });
    if (!on) return;
    this.playTimer = setInterval(() => {
      const { frames, frame, image } = this.state;
      if (!frames.has(frame)) return; // it is on its way
      this.goto(frame + 1 < image.frames ? frame + 1 : 0);
    }, 1000 / RATE);
  }

  track(reverse) {
    if (!isClip(this.state) || !this.state.objects.length || this.state.running) return;
    this.send("propagate", { ...this.where(), reverse });
  }

  // The next place to check after the shown frame.
  goCheck() {
    const { checks, frame } = this.state;
    if (!checks.length) return this.say(WORDS.nothingToCheck);
    const next = checks.find((row) => row.frame > frame) || checks[0];
    this.send("select", { object: next.object });
    return this.goto(next.frame);
  }

  // ---- the view

  say(text) {
    this.dispatch({ type: "told", text });
  }

  // Another radius of the brush.
  resize(factor) {
    const radius = Math.min(Math.max(this.state.radius * factor, 1), 200);
    this.choose({ radius: Math.round(radius * 10) / 10 });
  }

  zoom(factor, at) {
    this.dispatch({ type: "zoomed", factor, at });
  }

  shift(left, top) {
    this.dispatch({ type: "shifted", left, top });
  }

  pan(left, top) {
    const { zoom } = this.state;
    this.shift(zoom.left + left, zoom.top + top);
  }

  // Light or dark: as the system, as the host's background, or as chosen.
  paint(scheme) {
    this.choose({ scheme });
    if (this.host) localStorage.setItem(SCHEME, scheme);
    this.scheme = "";
    this.follow();
  }

  follow() {
    const { scheme } = this.state;
    const seen = scheme !== "auto" ? scheme : this.host ? "light dark"
      : darkBehind(this.root.parentElement) ? "dark" : "light";
    if (seen === this.scheme) return;
    this.scheme = seen;
    this.root.style.colorScheme = seen;
  }
}

// Whether what lies behind an element is dark.
function darkBehind(element) {
  for (let at = element; at; at = at.parentElement || at.getRootNode().host) {
    const [red, green, blue, alpha = 1] = getComputedStyle(at).backgroundColor.match(/[\d.]+/g)?.map(Number) || [];
    if (alpha > 0.5) return 0.3 * red + 0.59 * green + 0.11 * blue < 110;
  }
  return false;
}

export function render({ model, el }) {
  const root = make("div");
  root.className = "srx";
  root.append(make("style", { textContent: STYLE }));
  el.append(make("div.host", {}, root));
  const front = new Front(model, root, null);
  root.front = front; // for tests
  return () => front.end();
}
