// What is drawn of the image: three sheets, of which the hover's changes with each move of the mouse.

import { clamp, css, make, text } from "./dom.js";
import { labelAt, layerCanvas, newCanvas, outlinePath, painted } from "./masks.js";
import { colorOf, currentOf, fineMasks, isClip, isInside } from "./state.js";
import { drawTiles } from "./tiles.js";
import { WORDS } from "./words.js";

const LINE = 1.5; // CSS pixels of an outline
const SQUARES = 2; // CSS pixels of a grid's pixel from which outlines follow its edges
const REACHES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
const LEAST_NAMED = 60; // CSS pixels of a mask that shows its name
const INSIDE = "#12804f";
const OUTSIDE = "#c22f2f";

export class Stage {
  paints = new Map(); // id of a mask, or number of a track -> {key, bits, paint, path}
  composed = newCanvas();
  under = newCanvas();
  over = newCanvas();
  last = {};

  constructor(front) {
    this.front = front;
    this.canvas = make("canvas.view", {
      tabIndex: 0, role: "application", ariaLabel: WORDS.canvas,
    });
    this.context = this.canvas.getContext("2d");
    this.element = make("main.stage", {}, this.canvas);
  }

  // The position of the image under a position of the canvas.
  at(u, v) {
    const { scale, left, top } = this.front.state.zoom;
    return { u, v, x: (u - left) / scale, y: (v - top) / scale };
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.at(event.clientX - box.left, event.clientY - box.top);
  }

  get center() {
    return { u: this.canvas.clientWidth / 2, v: this.canvas.clientHeight / 2 };
  }

  measure() {
    const { clientWidth: width, clientHeight: height } = this.element;
    const ratio = devicePixelRatio || 1;
    const { stage } = this.front.state;
    if (width && (stage.width !== width || stage.height !== height || stage.ratio !== ratio))
      this.front.dispatch({ type: "sized", stage: { width, height, ratio } });
  }

  draw(state) {
    const { last } = this;
    const differs = (...names) => names.some((name) => last[name] !== state[name]);
    const view = differs("zoom", "stage", "image");
    if (differs("stage")) {
      const { width, height, ratio } = state.stage;
      for (const sheet of [this.canvas, this.under, this.over]) {
        sheet.width = Math.max(1, Math.round(width * ratio));
        sheet.height = Math.max(1, Math.round(height * ratio));
      }
    }
    const masks = differs("objects", "masks", "frames", "frame", "opacity", "outline", "hidden",
      "current", "image", "project") || this.reachOf(state) !== this.reach;
    if (masks) this.compose(state);
    const layer = differs("layer") || (state.layer && differs("pointer"));
    if (layer) this.label(state);
    const under = view || masks || layer || differs("bitmap", "broken", "fine", "tiles");
    if (under) this.drawUnder(state);
    const over = under || differs("drag", "aimed", "examples", "names", "pending", "tool", "radius") ||
      (["brush", "eraser"].includes(state.tool) && differs("pointer"));
    if (over) this.drawOver(state);
    if (over || differs("hover", "pointed")) this.blend(state);
    this.last = state;
  }

  // ---- masks

  // Pixels of the grid that an outline is wide; 0 where outlines are drawn along the edges.
  reachOf(state) {
    if (!state.image) return 0;
    const step = state.zoom.scale * this.stepOf(state);
    if (step >= SQUARES) return 0;
    return REACHES.find((reach) => reach * step >= LINE * 0.75) || REACHES.at(-1);
  }

  // Pixels of the image for each of the grid of masks.
  stepOf(state) {
    const { image } = state;
    return isClip(state) ? image.width / image.preview[0] : image.step;
  }

  // The masks that are seen: object, mask, and under which key what was painted is kept.
  *masksOf(state) {
    const clip = isClip(state);
    const kept = clip ? state.frames.get(state.frame) : null;
    for (const one of state.objects) {
      if (state.hidden.has(one.id)) continue;
      const mask = clip ? kept?.masks.find(({ head }) => head.object === one.id)
        : state.masks.get(one.mask);
      if (mask) yield { one, mask, key: clip ? `${one.id}` : one.mask };
    }
  }

  // Draw all masks into one canvas, which a hover finds ready.
  compose(state) {
    const { image } = state;
    if (!image) return;
    const [width, height] = isClip(state) ? image.preview : image.grid;
    Object.assign(this.composed, { width, height });
    this.reach = this.reachOf(state);
    const context = this.composed.getContext("2d");
    const used = new Map();
    for (const { one, mask, key } of this.masksOf(state)) {
      const share = one.id === state.current ? state.opacity : 0.75 * state.opacity;
      const fill = state.outline ? 0 : share;
      const color = colorOf(state, one);
      const look = `${color},${fill},${this.reach}`;
      let known = this.paints.get(key);
      if (known?.mask !== mask) known = { mask };
      if (known.look !== look) {
        known.look = look;
        known.paint = painted(mask, color, fill, this.reach);
      }
      used.set(key, known);
      if (known.paint) context.drawImage(known.paint.canvas, known.paint.x, known.paint.y);
    }
    this.paints = used;
  }

  label(state) {
    const { layer, pointer } = state;
    if (!layer) return (this.layer = null);
    const chosen = pointer && isInside(state, pointer) ? labelAt(layer, state.image, pointer) : 0;
    if (this.layer?.of === layer && this.layer.chosen === chosen) return null;
    return (this.layer = { of: layer, chosen, canvas: layerCanvas(layer, chosen) });
  }

  // ---- sheets

  // Let a canvas take pixels of the image, which begins with a whole pixel of the screen where its own
  // are seen as they are.
  toImage(context, { zoom: { scale, left, top }, stage: { ratio } }) {
    const step = scale * ratio;
    const exact = step >= 2 || Math.abs(step - 1) < 0.001;
    const [x, y] = [left * ratio, top * ratio].map((at) => (exact ? Math.round(at) : at));
    context.setTransform(step, 0, 0, step, x, y);
    context.imageSmoothingEnabled = step < 2;
  }

  cleared(sheet) {
    const context = sheet.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, sheet.width, sheet.height);
    return context;
  }

  bitmapOf(state) {
    return isClip(state) ? (state.frames.get(state.frame)?.bitmap || this.shown) : state.bitmap;
  }

  drawUnder(state) {
    const context = this.cleared(this.under);
    const { image } = state;
    if (!image || state.broken !== null) return;
    const bitmap = this.bitmapOf(state);
    this.shown = isClip(state) ? bitmap : null; // until the next frame is there
    if (!bitmap) return;
    const { width, height } = image;
    this.toImage(context, state);
    context.drawImage(bitmap, 0, 0, width, height);
    drawTiles(context, state);
    if (this.layer) context.drawImage(this.layer.canvas, 0, 0, width, height);
    const fine = fineMasks(state);
    if (fine) return this.drawFine(context, state, fine);
    const step = this.stepOf(state);
    context.drawImage(this.composed, 0, 0, this.composed.width * step, this.composed.height * step);
    if (!this.reach) this.drawEdges(context, state, step);
  }

  // Masks at full resolution, of what is seen.
  drawFine(context, state, masks) {
    const { zoom: { scale }, stage, opacity, outline, hidden, current } = state;
    for (const mask of masks) {
      const one = this.front.objectOf(mask.head.object);
      if (!one || hidden.has(one.id)) continue;
      const color = colorOf(state, one);
      const fill = outline ? 0 : one.id === current ? opacity : 0.75 * opacity;
      const look = `${color},${fill}`;
      if (mask.look !== look) Object.assign(mask, { look, paint: painted(mask, color, fill, 0) });
      if (!mask.paint) continue;
      context.drawImage(mask.paint.canvas, mask.paint.x, mask.paint.y);
      if (scale * stage.ratio < SQUARES) continue;
      mask.path ||= outlinePath(mask);
      Object.assign(context, { strokeStyle: css(color), lineWidth: LINE / scale });
      context.stroke(mask.path);
    }
  }

  // Outlines along the edges of pixels, of what is seen.
  drawEdges(context, state, step) {
    const { zoom: { scale, left, top }, stage } = state;
    const view = [-left / scale, -top / scale, (stage.width - left) / scale, (stage.height - top) / scale];
    context.scale(step, step);
    context.lineWidth = LINE / (scale * step);
    for (const { one, mask, key } of this.masksOf(state)) {
      const [x0, y0, x1, y1] = mask.head.box.map((side) => side * step);
      if (x1 < view[0] || y1 < view[1] || x0 > view[2] || y0 > view[3]) continue;
      const known = this.paints.get(key);
      known.path ||= outlinePath(mask);
      context.strokeStyle = css(colorOf(state, one));
      context.stroke(known.path);
    }
  }

  drawOver(state) {
    const context = this.cleared(this.over);
    const { ratio } = state.stage;
    if (!state.image || state.broken !== null || !this.bitmapOf(state)) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawPrompts(context, state);
    if (state.names) this.drawNames(context, state);
    this.drawTool(context, state);
  }

  // Draw what is ready, and the hover.
  blend(state) {
    const { image, hover, pointed } = state;
    const context = this.cleared(this.canvas);
    context.drawImage(this.under, 0, 0);
    if (image && state.broken === null) {
      const known = pointed === null ? null
        : this.paints.get(isClip(state) ? `${pointed}` : this.front.objectOf(pointed)?.mask);
      this.toImage(context, state);
      if (hover) {
        const reach = this.hoverReach(state, hover);
        const one = currentOf(state);
        const color = one ? colorOf(state, one) : [255, 255, 255];
        const paint = painted(hover, color, 0.3, reach);
        const [a, b] = [image.width / hover.head.size[0], image.height / hover.head.size[1]];
        if (paint) {
          const { canvas, x, y } = paint;
          context.drawImage(canvas, x * a, y * b, canvas.width * a, canvas.height * b);
        }
      } else if (known?.paint) {
        const { canvas, x, y } = known.paint;
        const step = this.stepOf(state);
        context.drawImage(canvas, x * step, y * step, canvas.width * step, canvas.height * step);
      }
      context.setTransform(1, 0, 0, 1, 0, 0);
    }
    context.drawImage(this.over, 0, 0);
  }

  hoverReach(state, { head }) {
    const step = (state.zoom.scale * state.image.width) / head.size[0];
    return Math.max(1, Math.round(LINE / step));
  }

  // ---- prompts and names

  rectangle(context, state, [x0, y0, x1, y1], color, dashes = []) {
    const { scale, left, top } = state.zoom;
    const rest = [x0 * scale + left, y0 * scale + top, (x1 - x0) * scale, (y1 - y0) * scale];
    for (const [strokeStyle, lineWidth, dash] of [["#000a", 3.5, []], [color, 1.75, dashes]]) {
      Object.assign(context, { strokeStyle, lineWidth });
      context.setLineDash(dash);
      context.strokeRect(...rest);
    }
    context.setLineDash([]);
  }

  line(context, state, a, b) {
    const { scale, left, top } = state.zoom;
    for (const [strokeStyle, lineWidth] of [["#000a", 3.5], ["#fff", 1.75]]) {
      Object.assign(context, { strokeStyle, lineWidth });
      context.beginPath();
      context.moveTo(a.x * scale + left, a.y * scale + top);
      context.lineTo(b.x * scale + left, b.y * scale + top);
      context.stroke();
    }
  }

  // Points differ by colour and by sign; those that wait for their answer are hollow.
  sign(context, state, x, y, label, hollow = false) {
    const { scale, left, top } = state.zoom;
    const [u, v] = [x * scale + left, y * scale + top];
    const [fill, line] = label ? ["#fff", INSIDE] : [OUTSIDE, "#fff"];
    context.beginPath();
    context.arc(u, v, 7, 0, 7);
    Object.assign(context, { fillStyle: fill, strokeStyle: line, lineWidth: 2 });
    if (!hollow) context.fill();
    if (hollow) context.setLineDash([3, 3]);
    context.stroke();
    context.setLineDash([]);
    context.beginPath();
    context.moveTo(u - 3, v);
    context.lineTo(u + 3, v);
    if (label) {
      context.moveTo(u, v - 3);
      context.lineTo(u, v + 3);
    }
    context.stroke();
  }

  drawPrompts(context, state) {
    const one = currentOf(state);
    const here = (mark, at) => mark[at] === undefined || mark[at] === state.frame;
    if (one && !state.hidden.has(one.id)) {
      for (const box of one.boxes.filter((each) => here(each, 4)))
        this.rectangle(context, state, box, css(colorOf(state, one)));
      for (const [x, y, label] of one.points.filter((each) => here(each, 3)))
        this.sign(context, state, x, y, label);
    }
    for (const { box, label } of state.examples)
      this.rectangle(context, state, box, label ? "#ffd60a" : "#f03e3e", [5, 3]);
    for (const { type, fields } of state.pending)
      if (type === "click") this.sign(context, state, fields.x, fields.y, fields.label, true);
      else this.drawPath(context, state, { kind: type, ...fields });
  }

  // What is painted: while it is, and until it is answered.
  drawPath(context, state, { kind, path, add, radius }) {
    const { scale, left, top } = state.zoom;
    const one = currentOf(state);
    context.save();
    context.beginPath();
    for (const [x, y] of path) context.lineTo(x * scale + left, y * scale + top);
    if (path.length === 1) context.lineTo(path[0][0] * scale + left + 0.01, path[0][1] * scale + top);
    const color = !add ? OUTSIDE : one ? css(colorOf(state, one)) : "#fff";
    Object.assign(context, { lineCap: "round", lineJoin: "round", strokeStyle: color, fillStyle: color });
    if (kind === "lasso") {
      context.globalAlpha = 0.25;
      context.fill();
      Object.assign(context, { globalAlpha: 1, lineWidth: LINE });
    } else Object.assign(context, { globalAlpha: 0.5, lineWidth: 2 * radius * scale });
    context.stroke();
    context.restore();
  }

  drawTool(context, state) {
    const { drag, aimed, pointer, tool, zoom: { scale } } = state;
    if (drag?.path) this.drawPath(context, state, { radius: state.radius, ...drag });
    if (drag?.kind === "line")
      this.line(context, state, drag.at, drag.to);
    if (drag?.kind === "point" && drag.moved)
      this.sign(context, state, drag.to.x, drag.to.y, drag.point.label, true);
    const at = drag ? drag.to : pointer;
    if (at && (tool === "brush" || tool === "eraser"))
      for (const [strokeStyle, lineWidth] of [["#000a", 3], ["#fff", 1.25]]) {
        context.beginPath();
        context.arc(at.u, at.v, state.radius * scale, 0, 7);
        Object.assign(context, { strokeStyle, lineWidth });
        context.stroke();
      }
    if (aimed) {
      const { x, y } = aimed;
      const arm = 9 / scale;
      this.rectangle(context, state, [x - arm, y, x + arm, y], "#fff");
      this.rectangle(context, state, [x, y - arm, x, y + arm], "#fff");
    }
    if (drag?.kind === "box" && drag.moved)
      this.rectangle(context, state, boxAround(drag.at, drag.to), "#fff", [4, 3]);
    if (drag?.long) {
      context.beginPath();
      context.arc(drag.at.u, drag.at.v, 26, 0, 7);
      Object.assign(context, { strokeStyle: OUTSIDE, lineWidth: 4 });
      context.stroke();
    }
  }

  drawNames(context, state) {
    const { image, stage, zoom: { scale, left, top } } = state;
    context.font = "600 12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const { one, mask: { head } } of this.masksOf(state)) {
      const [x0, y0, x1, y1] = head.box;
      if (x1 <= x0) continue;
      const [a, b] = [image.width / head.size[0], image.height / head.size[1]];
      const size = Math.max((x1 - x0) * a, (y1 - y0) * b) * scale;
      if (one.id !== state.current && size < LEAST_NAMED) continue;
      const width = context.measureText(one.name).width + 22;
      const middle = ((x0 + x1) / 2) * a * scale + left;
      if (middle < 0 || middle > stage.width || y0 * b * scale + top > stage.height) continue;
      const y = Math.max(y0 * b * scale + top - 13, 12);
      const x = clamp(middle - width / 2, 4, Math.max(stage.width - width - 4, 4));
      context.fillStyle = one.id === state.current ? "#fff" : "#fffd";
      Object.assign(context, { shadowColor: "#0006", shadowBlur: 4 });
      context.beginPath();
      context.roundRect(x, y - 10, width, 20, 6);
      context.fill();
      context.shadowBlur = 0;
      context.fillStyle = css(colorOf(state, one));
      context.beginPath();
      context.roundRect(x + 7, y - 4, 5, 8, 2);
      context.fill();
      context.fillStyle = "#1b1f24";
      context.fillText(one.name, x + 16, y + 0.5);
    }
  }
}

export const boxAround = (a, b) =>
  [Math.min(a.x, b.x), Math.min(a.y, b.y), Math.max(a.x, b.x), Math.max(a.y, b.y)];

// The percentage, and buttons beside it.
export class Zoom {
  constructor(front) {
    this.percent = front.button("button.pc", "fit", { text: "100 %" });
    this.element = make("div.zoom", { role: "group", ariaLabel: WORDS.zoom },
      front.button("button.icon", "zoom_out", { text: "−" }), this.percent,
      front.button("button.icon", "zoom_in", { text: "+" }));
  }

  draw({ image, zoom, broken }) {
    this.element.hidden = !image || broken !== null;
    text(this.percent, `${Math.round(zoom.scale * 100)} %`);
  }
}
