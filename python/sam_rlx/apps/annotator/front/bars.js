// What lies around the image: the top bar, the rail of tools, the current object's bar, the status
// line, and the sentences over the image.

import { css, icon, keyed, light, make, show, text } from "./dom.js";
import { newCanvas, painted } from "./masks.js";
import { colorOf, currentOf, isClip, isLeftOut } from "./state.js";
import { WORDS } from "./words.js";

export class Top {
  constructor(front) {
    this.front = front;
    this.name = make("b");
    this.project = make("button.project", {
      type: "button", title: WORDS.menu, ariaLabel: WORDS.menu, onclick: () => front.menu.toggle(this.project),
    }, make("span.mark"), this.name, icon("down", true));
    this.saved = make("span.saved");
    this.index = make("b");
    this.count = make("i");
    this.file = make("em");
    this.done = front.button("button.done", "done", { icon: "check", small: true, text: WORDS.doneButton });
    this.turn = make("nav.turn", { ariaLabel: WORDS.queue },
      front.button("button.icon", "previous", { icon: "left" }),
      make("span.where", {}, this.index, this.count, this.file),
      front.button("button.icon", "next", { icon: "right" }), this.done);
    this.words = make("input.words", {
      type: "text", placeholder: WORDS.words, maxLength: 500, ariaLabel: WORDS.wordsLabel, title: WORDS.wordsHow,
      onkeydown: ({ key, shiftKey }) => { if (key === "Enter") { if (shiftKey) front.findAll(); else front.find(); } },
    });
    this.options = make("button.icon", {
      type: "button", title: WORDS.wordsOptions, ariaLabel: WORDS.wordsOptions,
      onclick: () => front.search.toggle(this.find),
    }, icon("more", true));
    this.find = make("div.find", {}, icon("find", true), this.words, make("kbd", { textContent: "/" }), this.options);
    this.undo = front.button("button.icon", "undo", { icon: "undo" });
    this.redo = front.button("button.icon.wide", "redo", { icon: "redo" });
    this.export = front.button("button.plain.export", "export_as", { icon: "export", small: true, text: WORDS.export });
    this.keys = front.button("button.icon.wide", "help", { icon: "keys" });
    this.drawer = make("button.icon.panelkey", {
      type: "button", title: WORDS.objects, ariaLabel: WORDS.objects,
      onclick: () => front.choose({ drawer: !front.state.drawer }),
    }, icon("panel"));
    this.full = front.button("button.icon.fullkey", "full", { icon: "full" });
    this.element = make("header.top", {}, this.project, this.saved, this.turn, this.find,
      make("span.gap"), this.undo, this.redo, this.export, this.keys, this.full, this.drawer);
  }

  draw(state) {
    const { image, project, about } = state;
    text(this.name, about?.name || "sam_rlx");
    const [word, good] = this.keptWord(state);
    show(this.saved, image && word);
    text(this.saved, word);
    light(this.saved, "off", !good);
    const many = image && !isClip(state) && image.count > 1;
    show(this.turn, image && !isClip(state));
    for (const part of [this.turn.children[0], this.turn.children[2], this.index, this.count])
      show(part, many);
    if (image) {
      text(this.index, `${image.index + 1}`);
      text(this.count, WORDS.of(image.count));
      text(this.file, image.name);
      this.file.title = image.name;
      this.turn.children[0].disabled = image.index === 0;
      this.turn.children[2].disabled = image.index === image.count - 1;
      const done = project.items[image.index]?.state === "done";
      show(this.done, this.front.can("done"));
      light(this.done, "on", done);
      this.done.ariaPressed = `${done}`;
    }
    show(this.find, image?.texts);
    show(this.export, image);
    show(this.undo, image);
    show(this.redo, image);
    this.undo.disabled = !state.canUndo;
    this.redo.disabled = !state.canRedo;
    this.front.entitleOne(this.undo, state.undo);
    this.front.entitleOne(this.redo, state.redo);
    light(this.drawer, "on", state.drawer);
    show(this.drawer, image);
    show(this.full, !this.front.host);
  }

  keptWord({ about, unsaved, readOnly, link }) {
    if (unsaved) return [WORDS.notSaved, false];
    if (readOnly) return [WORDS.onlyRead, false];
    if (this.front.wire.slow || link === "down") return [WORDS.saving, false];
    return [WORDS.kept[about?.kept] || "", about?.kept !== "memory"];
  }
}

// Name of the row, icon, key, and the tool of the view that it is.
const TOOLS = [["tool_click", "click", "S", "click"], ["stroke", "brush", "B", "brush"],
  ["stroke", "eraser", "E", "eraser"], ["lasso", "lasso", "L", "lasso"], ["hand", "hand", "", "hand"],
  null, ["everything", "all", "G", ""], ["merge", "merge", "M", ""]];

export class Rail {
  constructor(front) {
    this.front = front;
    this.tools = TOOLS.map((tool) => {
      if (!tool) return make("hr");
      const [row, picture, letter, name] = tool;
      const button = front.button("button.tool", row === "stroke" ? name : row, { icon: picture });
      if (letter) button.append(make("i", { textContent: letter }));
      return button;
    });
    this.element = make("nav.rail", { ariaLabel: WORDS.tools }, ...this.tools);
  }

  draw(state) {
    const { tool: shown, layer, example, moving, about } = state;
    TOOLS.forEach((tool, at) => {
      if (!tool) return;
      const [row, , , name] = tool;
      const on = row === "everything" ? layer
        : name === shown && !(name === "click" && (layer || example !== null || moving));
      const button = this.tools[at];
      light(button, "on", on);
      button.ariaPressed = `${!!on}`;
      const there = !about || row === "tool_click" || this.front.can(row);
      show(button, there && !(row === "everything" && isClip(state)));
    });
  }
}

// Over the image: the object that prompts change.
export class Bar {
  constructor(front) {
    this.front = front;
    this.swatch = make("span.sw");
    this.name = make("bdi.n");
    this.pick = make("button.pick", {
      type: "button", ondblclick: () => front.rename(this.name, front.state.current),
    }, this.swatch, this.name);
    this.answers = make("div.answers", { role: "radiogroup", ariaLabel: WORDS.bar });
    const small = (name, picture, words) =>
      front.button("button.small.sm", name, { icon: picture, small: true, text: words });
    this.repairs = [["fill", small("fill", "fill", WORDS.fill)],
      ["smooth", small("smooth", "smooth", WORDS.smooth)], ["split", small("split", "split", WORDS.split)]];
    this.ofClip = [["gone", small("gone", "hide", WORDS.goneHere)],
      ["split_track", small("split_track", "split", WORDS.splitHere)],
      ["right", small("right", "check", WORDS.rightHere)],
      ["remove_masks", small("remove_masks", "close", WORDS.noMask)]];
    this.delete = front.button("button.icon", "delete", { icon: "bin" });
    this.keep = front.button("button.main", "commit", { text: WORDS.keep });
    this.keep.append(make("kbd", { textContent: "⏎" }));
    this.track = front.button("button.main", "track", { text: WORDS.trackOn });
    this.track.append(make("kbd", { textContent: "T" }));
    this.element = make("section.context", { ariaLabel: WORDS.bar }, this.pick, make("span.sep"),
      this.answers, ...[...this.repairs, ...this.ofClip].map(([, button]) => button), this.delete,
      this.keep, this.track);
  }

  draw(state) {
    const one = currentOf(state);
    show(this.element, one && state.broken === null && !state.drag);
    if (!one) return text(this.name, "");
    const { front } = this;
    this.swatch.style.background = css(colorOf(state, one));
    if (!this.name.querySelector("input")) text(this.name, one.name);
    this.pick.title = WORDS.rename(one.name);
    const clip = isClip(state);
    for (const [name, button] of this.repairs) show(button, !clip && front.can(name));
    for (const [name, button] of this.ofClip) show(button, clip && front.can(name));
    this.drawAnswers(state, one, clip);
    show(this.keep, !clip);
    show(this.track, clip);
    this.track.disabled = state.running;
  }

  // The answers to a single click, each as a picture: what is outside is dimmed.
  drawAnswers(state, one, clip) {
    const count = clip || one.candidates < 2 ? 0 : one.candidates;
    show(this.answers, count);
    const answers = state.answers.map(({ mask }) => state.masks.get(mask));
    const known = answers.length === count && answers.every((mask) => mask);
    keyed(this.answers, Array.from({ length: count }, (_, at) => at), (at) => at,
      (at) => make("button.answer", {
        type: "button", role: "radio", title: WORDS.answer(at + 1, count),
        onclick: () => this.front.send("candidate", { index: at }),
      }, make("span", { textContent: `${at + 1}` }), newCanvas(132, 96)),
      (button, at) => {
        light(button, "on", one.candidate === at);
        button.ariaChecked = `${one.candidate === at}`;
        show(button.firstChild, !known);
        show(button.lastChild, known);
        if (known && button.mask !== answers[at]) {
          button.mask = answers[at];
          drawAnswer(button.lastChild, state, answers, answers[at]);
        }
      });
  }
}

// A part of the image around all answers, dimmed outside of one of them.
function drawAnswer(canvas, { image, bitmap, answers: [{ step }] }, answers, mask) {
  const context = canvas.getContext("2d");
  const boxes = answers.map(({ head }) => head.box).filter(([x0, , x1]) => x1 > x0);
  if (!bitmap || !boxes.length) return;
  const sides = [0, 1, 2, 3].map((at) => boxes.map((box) => box[at] * step));
  const [x0, y0, x1, y1] = [Math.min(...sides[0]), Math.min(...sides[1]), Math.max(...sides[2]), Math.max(...sides[3])];
  const scale = Math.min(canvas.width / (x1 - x0), canvas.height / (y1 - y0)) * 0.86;
  const put = () => context.setTransform(scale, 0, 0, scale,
    canvas.width / 2 - (scale * (x0 + x1)) / 2, canvas.height / 2 - (scale * (y0 + y1)) / 2);
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  const paint = painted(mask, [0, 0, 0], 1, 0);
  const hole = newCanvas(canvas.width, canvas.height);
  const dark = hole.getContext("2d");
  dark.fillStyle = "#fffb";
  dark.fillRect(0, 0, hole.width, hole.height);
  dark.globalCompositeOperation = "destination-out";
  put();
  context.drawImage(bitmap, 0, 0, image.width, image.height);
  dark.setTransform(context.getTransform());
  if (paint) {
    const { canvas: shape, x, y } = paint;
    dark.drawImage(shape, x * step, y * step, shape.width * step, shape.height * step);
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(hole, 0, 0);
}

// A sentence that must be read: what is wrong, what was not found, and what can be done.
export class Badge {
  constructor(front) {
    this.front = front;
    this.say = make("span");
    this.actions = make("span.actions");
    this.close = make("button.icon", {
      type: "button", title: WORDS.dismiss, ariaLabel: WORDS.dismiss,
      onclick: () => front.dispatch({ type: "told", text: "" }),
    }, icon("close", true));
    this.element = make("div.badge", { role: "status" }, this.say, this.actions, this.close);
  }

  draw(state) {
    const { said, actions, bad, closes } = this.sentence(state);
    show(this.element, said);
    text(this.say, said);
    light(this.element, "error", bad);
    show(this.close, closes);
    keyed(this.actions, actions, ({ title }) => title,
      ({ title, act }) => make("button.link", { type: "button", textContent: title, onclick: act }),
      () => {});
  }

  sentence(state) {
    const { front } = this;
    const { link, readOnly, elsewhere, unsaved, note } = state;
    const as = (said, bad, actions = [], closes = false) => ({ said, bad, actions, closes });
    if (link === "gone") return as(WORDS.restarted, true);
    if (link === "ended") return as(WORDS.ended(state.reason), true);
    if (link === "down") return as(state.page ? WORDS.reconnecting : WORDS.connecting, !!state.page);
    if (state.unheard) return as(WORDS.deaf, true);
    const takeOver = readOnly ? [{ title: WORDS.takeOver, act: () => front.send("take_over") }] : [];
    if (readOnly && elsewhere)
      takeOver.unshift({ title: WORDS.goThere, act: () => open(elsewhere, "_blank", "noopener") });
    if (state.error) return as(state.error, true, takeOver, true);
    if (note) return as(note.text, false, [...note.actions, ...takeOver], true);
    if (unsaved) return as(WORDS.unsaved(unsaved), true);
    if (readOnly) return as(WORDS.readOnly(readOnly), true, takeOver);
    if (!state.image && !front.host) return as(state.status.text || WORDS.waiting, false);
    return as("", false);
  }
}

export class Status {
  constructor(front) {
    this.front = front;
    this.say = make("span.say");
    this.doing = make("span");
    this.meter = make("u");
    this.stop = make("button.stop", {
      type: "button", textContent: WORDS.stop, onclick: () => front.wire.send("stop"),
    });
    this.work = make("span.prog", {}, this.doing, this.meter, this.stop);
    this.place = make("span.place");
    this.size = make("span.size");
    this.model = make("span.model");
    this.element = make("footer.status", {}, this.work, this.say, make("span.gap"), this.place,
      this.size, this.model);
  }

  draw(state) {
    const { image, pointer, about } = state;
    const { said, part, stops } = this.working(state);
    show(this.work, said);
    text(this.doing, said);
    show(this.meter, part !== null);
    this.meter.style.setProperty("--p", `${100 * (part ?? 0)}%`);
    show(this.stop, stops);
    show(this.say, !said);
    text(this.say, this.hint(state));
    text(this.place, pointer && image ? `x ${Math.floor(pointer.x)} · y ${Math.floor(pointer.y)}` : "");
    text(this.size, image ? `${image.width} × ${image.height}` : "");
    text(this.model, about?.model || "");
    light(this.front.app, "working", said);
  }

  // What takes long, how far it is, and whether it can be stopped.
  working(state) {
    const { status, running, done, total } = state;
    if (running)
      return { said: WORDS.tracking(done, total), part: done / Math.max(total, 1), stops: true };
    if (status.text) return { said: status.text, part: status.part, stops: status.stops };
    if (state.sending) return { said: WORDS.sending(state.sending), part: null, stops: false };
    return { said: state.slow ? WORDS.busy : "", part: null, stops: false };
  }

  hint(state) {
    const one = currentOf(state);
    if (!state.image) return "";
    if (state.example !== null) return WORDS.hintExample(state.example);
    if (state.layer) return WORDS.hintFound;
    if (WORDS.hintTool[state.tool]) return WORDS.hintTool[state.tool];
    if (one) {
      const inside = one.points.filter(([, , label]) => label).length;
      return WORDS.current(one.name, inside, one.points.length - inside);
    }
    if (isLeftOut(state)) return WORDS.isLeftOut;
    const items = state.project.items.filter((item) => item.state !== "left out");
    const done = items.filter((item) => item.state === "done").length;
    if (items.length > 1 && done === items.length) return WORDS.finished(done);
    if (isClip(state)) return WORDS.hintClip;
    return this.front.coarse ? WORDS.hintTouch : WORDS.hint;
  }
}
