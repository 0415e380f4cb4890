// From the pointer to gestures. Each tool is a small machine: idle, pressed, dragging.

import { clamp, now } from "./dom.js";
import { hasPixel } from "./masks.js";
import { boxAround } from "./stage.js";
import { currentOf, isClip, isInside } from "./state.js";

const DRAG = 4; // CSS pixels from which a press is a drag
const LONG = 450; // ms from which a touch is a right click
const TWICE = 350; // ms between the clicks of a double one

const GRIP = 9; // CSS pixels around a point that can be dragged

// A path with a further position, if it is worth one.
function longer(path, { x, y }, { zoom: { scale }, radius }) {
  if (!path) return undefined;
  const [lastX, lastY] = path.at(-1);
  const least = Math.max(1 / scale, Math.min(radius / 8, 2));
  return Math.hypot(x - lastX, y - lastY) < least ? path : [...path, [x, y]];
}

const take = (event) => {
  event.preventDefault();
  event.stopPropagation();
};

export class Tools {
  fingers = new Map(); // id of a pointer that is down -> where
  hoverAt = null; // where the pointer is and what is not asked yet
  hoverSeq = 0;
  rawTime = 0; // of the last move that was answered before its frame
  selected = null; // the last click that selected: {at, time}

  constructor(front) {
    this.front = front;
    this.stage = front.stage;
    const { canvas } = this.stage;
    for (const name of ["down", "move", "up"])
      front.listen(canvas, `pointer${name}`, (event) => this[name](event));
    front.listen(canvas, "pointerrawupdate", (event) => this.rawMove(event));
    front.listen(canvas, "pointercancel", () => this.end());
    for (const name of ["pointerup", "pointercancel", "pointerleave"])
      front.listen(canvas, name, (event) => this.fingers.delete(event.pointerId));
    front.listen(canvas, "pointerleave", () => this.leave());
    front.listen(canvas, "wheel", (event) => this.wheel(event), { passive: false });
    front.listen(canvas, "contextmenu", take);
  }

  get state() {
    return this.front.state;
  }

  drag(drag) {
    this.front.choose({ drag });
  }

  // The prompt of the current object under a position, to be moved or taken away.
  promptAt({ u, v }) {
    const { state } = this;
    const one = currentOf(state);
    if (!one?.point_numbers || state.hidden.has(one.id)) return null;
    const { scale, left, top } = state.zoom;
    const at = one.points.findIndex(([x, y, , frame]) => (frame === undefined || frame === state.frame) &&
      Math.hypot(x * scale + left - u, y * scale + top - v) < GRIP);
    return at < 0 ? null : { number: one.point_numbers[at], label: one.points[at][2] };
  }

  // What a press begins: moving the view, painting, a point or a box.
  kindOf(event, at) {
    const { tool, moving, layer, example } = this.state;
    if (event.button === 1 || moving || tool === "hand") return { kind: "pan" };
    if (tool === "brush" || tool === "eraser") {
      const point = tool === "eraser" ? this.promptAt(at) : null;
      return { kind: "stroke", path: [[at.x, at.y]], add: tool === "brush", point };
    }
    if (tool === "lasso") return { kind: "lasso", path: [[at.x, at.y]], add: !event.altKey };
    if (tool === "split") return { kind: "line" };
    const point = layer || example !== null || event.button === 2 ? null : this.promptAt(at);
    return point ? { kind: "point", point } : { kind: "box" };
  }

  down(event) {
    const { state, stage } = this;
    stage.canvas.focus({ preventScroll: true });
    if (!state.image || state.broken !== null) return;
    event.preventDefault();
    const at = stage.point(event);
    this.fingers.set(event.pointerId, at);
    if (this.fingers.size > 1) return this.end();
    const begun = this.kindOf(event, at);
    const pan = begun.kind === "pan";
    if (begun.kind === "box" && !isInside(state, at)) return;
    stage.canvas.setPointerCapture(event.pointerId);
    this.hoverAt = null;
    const { left, top } = state.zoom;
    const label = event.button === 2 || event.shiftKey ? 0 : 1;
    this.front.choose({ aimed: null });
    this.drag({ ...begun, at, to: at, label, left, top, since: now() });
    if (event.pointerType === "touch" && begun.kind === "box")
      this.timer = setTimeout(() => {
        const { drag } = this.state;
        if (drag && !drag.moved) this.drag({ ...drag, long: true, label: 0 });
      }, LONG);
  }

  move(event) {
    const { state } = this;
    const at = this.stage.point(event);
    if (this.fingers.size > 1) return this.pinch(event.pointerId, at);
    const { drag } = state;
    if (drag) {
      const moved = drag.moved || Math.hypot(at.u - drag.at.u, at.v - drag.at.v) > DRAG;
      if (moved) clearTimeout(this.timer);
      this.drag({ ...drag, to: at, moved, long: drag.long && !moved, path: longer(drag.path, at, this.state) });
      if (drag.kind === "pan" && moved)
        this.front.shift(drag.left + at.u - drag.at.u, drag.top + at.v - drag.at.v);
      return;
    }
    if (event.timeStamp !== this.rawTime) this.over(at, event);
  }

  // A move as soon as it is known: `pointermove` tells of it with the browser's next frame.
  rawMove(event) {
    if (this.state.drag || this.fingers.size > 1) return;
    this.rawTime = event.timeStamp;
    this.over(this.stage.point(event), event);
  }

  // What is under the pointer: a prompt, a kept object, or a hover to be asked for.
  over(at, event) {
    const { state } = this;
    const pointed = this.kept(at, event);
    this.point = this.promptAt(at);
    this.front.choose({ pointer: at, aimed: null, pointed: pointed?.id ?? null });
    if (pointed || this.point || state.layer || state.tool !== "click" || state.moving || !isInside(state, at) ||
      state.example !== null || state.playing) return this.forget();
    this.hoverAt = { x: at.x, y: at.y, label: event.shiftKey ? 0 : 1 };
    this.ask();
  }

  up(event) {
    const { drag } = this.state;
    this.end();
    if (!drag || drag.kind === "pan") return;
    this.front.dispatch({ type: "left" });
    const { image } = this.state;
    if (drag.kind !== "box") return this.painted(drag);
    if (drag.moved) {
      const to = this.stage.point(event);
      const x = clamp(to.x, 0, image.width);
      const y = clamp(to.y, 0, image.height);
      const box = boxAround(drag.at, { x, y });
      if (box[2] > box[0] && box[3] > box[1]) this.front.boxed(box);
    } else this.clicked(drag.at, drag.label, event);
  }

  // What a drag that is no box has done.
  painted({ kind, path, add, point, at, to, moved, label }) {
    const { front, state } = this;
    const where = front.where();
    if (kind === "point") {
      if (moved) front.send("move_point", { number: point.number, x: to.x, y: to.y });
      else if (!label) front.send("remove_point", { number: point.number });
    } else if (kind === "stroke") {
      if (point && !moved) front.send("remove_point", { number: point.number });
      else if (add || currentOf(state)) front.send("stroke", { path, radius: state.radius, add, ...where });
    } else if (kind === "lasso" && path.length > 2) front.send("lasso", { path, add, ...where });
    else if (kind === "line" && moved) {
      front.send("split", { line: [[at.x, at.y], [to.x, to.y]], ...where });
      front.choose({ tool: "click" });
    }
  }

  end() {
    clearTimeout(this.timer);
    if (this.state.drag) this.drag(null);
  }

  // The kept object that a click at a position selects.
  kept(at, { shiftKey, altKey, ctrlKey, metaKey }) {
    const { state } = this;
    if (state.tool !== "click" || state.layer || state.example !== null || shiftKey || altKey)
      return null;
    if (state.current !== null && !(ctrlKey || metaKey)) return null;
    return this.under(at)[0] || null;
  }

  // The objects at a position, the uppermost first.
  under(at) {
    const { state } = this;
    return [...this.stage.masksOf(state)].reverse()
      .filter(({ mask }) => hasPixel(mask, state.image, at)).map(({ one }) => one);
  }

  // A click: on a kept object it selects that; a second one at once what lies below.
  clicked(at, label, event = {}) {
    const { front, state } = this;
    if (state.layer) return front.send("pick", { x: at.x, y: at.y });
    const { selected } = this;
    this.selected = null;
    if (selected && label && now() - selected.time < TWICE &&
      Math.hypot(at.u - selected.at.u, at.v - selected.at.v) < DRAG) {
      const all = this.under(at);
      const next = all[(all.findIndex((one) => one.id === state.current) + 1) % all.length];
      return next && front.send("select", { object: next.id });
    }
    const kept = label ? this.kept(at, event) : null;
    if (kept && (event.ctrlKey || event.metaKey) && state.current !== null) return front.chooseAlso(kept.id);
    if (kept) {
      this.selected = { at, time: now() };
      return front.send("select", { object: kept.id });
    }
    if (event.altKey && currentOf(state)) front.send("commit");
    return front.send("click", { x: at.x, y: at.y, label, ...front.where() });
  }

  // Zoom and pan so that what lies under two fingers stays there.
  pinch(id, at) {
    const old = this.fingers.get(id);
    const other = [...this.fingers.values()].find((one) => one !== old);
    this.fingers.set(id, at);
    if (!old || !other) return;
    const reach = ({ u, v }) => Math.hypot(u - other.u, v - other.v) || 1;
    this.front.zoom(reach(at) / reach(old), other);
  }

  wheel(event) {
    const { front, stage } = this;
    const focused = stage.canvas.getRootNode().activeElement === stage.canvas;
    if (!this.state.image || !(front.host || event.ctrlKey || focused)) return;
    take(event);
    if (event.altKey) return front.resize(Math.exp(-event.deltaY * 0.0015));
    return front.zoom(Math.exp(-event.deltaY * 0.0015), stage.point(event));
  }

  // ---- hover: one is on its way; of those that wait the newest is asked next

  ask() {
    const { front } = this;
    if (currentOf(this.state)?.locked) this.hoverAt = null;
    if (!this.hoverAt || front.wire.waiting.has(this.hoverSeq) || this.state.link !== "open") return;
    const { x, y, label } = this.hoverAt;
    this.hoverAt = null;
    this.hoverSeq = front.wire.send("hover", { x, y, label, ...front.where() });
  }

  leave() {
    if (this.state.drag) return;
    this.front.choose({ pointer: null, pointed: null });
    this.forget();
  }

  // Forget a hover, and the answer that is on its way.
  forget() {
    this.hoverAt = null;
    const { wire } = this.front;
    if (!this.state.hover && !wire.waiting.has(this.hoverSeq)) return;
    wire.waiting.delete(this.hoverSeq);
    this.hoverSeq = 0;
    this.front.dispatch({ type: "left" });
    wire.send("leave");
  }

  // ---- without a mouse: move a cross, and click there

  aim(left, top) {
    const { front, state, stage } = this;
    const { u, v } = stage.center;
    const from = state.aimed || stage.at(u, v);
    const step = 4 * state.zoom.scale;
    const to = { x: from.x - left / step, y: from.y - top / step };
    if (!isInside(state, to)) return;
    front.choose({ aimed: to });
    this.hoverAt = { ...to, label: 1 };
    this.ask();
  }

  clickAimed(label) {
    const { aimed } = this.state;
    if (!aimed) return;
    const { scale, left, top } = this.state.zoom;
    this.clicked({ ...aimed, u: aimed.x * scale + left, v: aimed.y * scale + top }, label);
  }
}
