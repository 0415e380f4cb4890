// The lists beside the image: classes, objects, what was found and is not kept, what is to be checked.

import { css, icon, isStale, keyed, light, make, show, text } from "./dom.js";
import { colorOf, currentOf, isClip } from "./state.js";
import { WORDS } from "./words.js";

const hex = (color) => `#${color.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
const rgb = (words) => [1, 3, 5].map((at) => parseInt(words.slice(at, at + 2), 16));

class Classes {
  constructor(front) {
    this.front = front;
    this.add = make("button", {
      type: "button", title: WORDS.newClass, ariaLabel: WORDS.newClass, onclick: () => this.ask(),
    }, icon("plus", true));
    this.title = make("h2.classes", {}, make("span", { textContent: WORDS.classes }), this.add);
    this.list = make("div.list.classes.rows", { role: "listbox", ariaLabel: WORDS.classes });
    this.parts = [this.title, this.list];
  }

  draw(state) {
    const { project: { classes }, objects, classNumber } = state;
    for (const part of this.parts) show(part, classes.length);
    const counts = new Map();
    for (const one of objects) counts.set(one.class, (counts.get(one.class) || 0) + 1);
    keyed(this.list, classes, ({ number }) => number, ({ number }) => this.row(number), (row, one) => {
      const on = one.number === classNumber;
      light(row, "on", on);
      row.ariaSelected = `${on}`;
      row.title = WORDS.classRow(one.name);
      const [swatch, name, count, buttons, digit] = row.children;
      swatch.style.background = css(one.color);
      swatch.firstChild.value = hex(one.color);
      swatch.firstChild.ariaLabel = swatch.title = WORDS.classColor(one.name);
      if (!name.querySelector("input")) text(name, one.name);
      text(count, counts.get(one.number) ? `${counts.get(one.number)}` : "");
      buttons.firstChild.title = buttons.firstChild.ariaLabel = WORDS.removeClass(one.name);
      show(buttons, classes.length > 1);
      text(digit, one.digit);
      show(digit, one.digit);
    });
  }

  row(number) {
    const { front } = this;
    const name = make("bdi.n");
    const color = make("input", { type: "color", onchange: () =>
      front.send("class_change", { class_number: number, color: rgb(color.value) }) });
    return make("div.row.class", {
      role: "option", tabIndex: 0, onclick: () => front.send("set_class", { class_number: number }),
      ondblclick: () => this.rename(name, number),
      onkeydown: ({ key, target }) => {
        if (key === "Enter" && target.role === "option") front.send("set_class", { class_number: number });
      },
    }, make("label.sw", { onclick: (event) => event.stopPropagation() }, color), name, make("span.q"),
    make("span.t", {}, make("button.hide", { type: "button", onclick: (event) => {
      event.stopPropagation();
      front.successor.ask(number);
    } }, icon("bin", true))), make("kbd"));
  }

  rename(place, number) {
    const known = this.front.state.project.classes.find((one) => one.number === number);
    this.front.write(place, known.name, (name) => this.front.send("class_change", { class_number: number, name }));
  }

  ask() {
    const place = make("bdi.n");
    const row = make("div.row", {}, make("span.sw"), place);
    this.list.append(row);
    this.front.write(place, "", (name) => this.front.send("class_add", { name }), () => row.remove());
  }
}

export class Panel {
  constructor(front) {
    this.front = front;
    this.classes = new Classes(front);
    this.title = make("h2.objects", {}, make("span"));
    this.list = make("div.list.objects.rows", { role: "listbox", ariaLabel: WORDS.objects });
    this.none = make("p.none.objects", { textContent: WORDS.noObjects });
    this.note = make("div.note.objects", { tabIndex: 0, role: "button", ariaLabel: WORDS.noteField,
      onclick: () => this.writeNote(), onkeydown: ({ key, target }) => {
        if (key === "Enter" && target === this.note) this.writeNote();
      } });
    this.foundTitle = make("h2.objects", {}, make("span", { textContent: WORDS.found }));
    this.foundCount = make("span.n");
    this.found = make("div.list.objects", {}, make("div.row", {}, icon("all", true), this.foundCount,
      (this.keepAll = front.button("button.small", "keep_found", { text: WORDS.keepAll })),
      make("button.small", {
        type: "button", textContent: WORDS.remove, onclick: () => front.act("everything"),
      })));
    this.checkTitle = make("h2.objects", {}, make("span", { textContent: WORDS.toCheck }),
      make("kbd", { textContent: "N" }));
    this.checks = make("div.list.objects", { role: "listbox", ariaLabel: WORDS.toCheck });
    this.opacity = make("input", {
      type: "range", min: 0, max: 1, step: 0.05, value: 0.45, ariaLabel: WORDS.opacity,
      oninput: () => front.choose({ opacity: +this.opacity.value }),
    });
    this.outline = front.button("button.icon", "outlines", { icon: "line", small: true });
    this.names = front.button("button.icon", "names", { icon: "tag", small: true });
    this.others = make("label.others", {}, make("input", {
      type: "checkbox", onchange: ({ target }) => front.send("others_stay", { on: target.checked }),
    }), WORDS.othersStay);
    this.element = make("aside.panel", {}, ...this.classes.parts, this.title, this.list, this.none, this.note,
      this.foundTitle, this.found, this.checkTitle, this.checks, this.others, make("div.foot", {}, make("span", { textContent: WORDS.opacity }), this.opacity,
        this.outline, this.names));
  }

  draw(state) {
    const { objects, current, hidden, image } = state;
    show(this.element, image);
    if (!image) return;
    this.classes.draw(state);
    this.drawChecks(state);
    show(this.keepAll, this.front.can("keep_found"));
    show(this.others, this.front.can("others_stay"));
    this.others.firstChild.checked = state.othersStay;
    text(this.title.firstChild, isClip(state) ? WORDS.tracks : WORDS.objects);
    show(this.none, !objects.length);
    const shown = this.front.can("note") && objects.find((one) => one.id === current);
    show(this.note, shown);
    if (shown && !this.note.querySelector("input")) text(this.note, WORDS.note(shown.note));
    for (const part of [this.foundTitle, this.found]) show(part, state.layer);
    if (state.layer) text(this.foundCount, WORDS.foundCount(state.layer.count));
    light(this.outline, "on", state.outline);
    light(this.names, "on", state.names);
    this.outline.ariaPressed = `${state.outline}`;
    this.names.ariaPressed = `${state.names}`;
    const locks = this.front.can("lock");
    keyed(this.list, objects, (one) => one.id, (one) => this.row(one.id), (row, one) => {
      const [on, off, also] = [one.id === current, hidden.has(one.id), state.chosen.has(one.id)];
      if (!isStale(row, one, on, off, also, locks, state.project)) return;
      const [swatch, name, score, buttons] = row.children;
      if (!name.querySelector("input")) text(name, one.name);
      light(row, "on", on);
      row.ariaSelected = `${on}`;
      light(row, "off", off);
      light(row, "also", also);
      row.title = WORDS.rename(one.name);
      swatch.style.background = css(colorOf(state, one));
      text(score, one.score === null ? "" : one.score.toFixed(2));
      const [lock, eye, bin] = buttons.children;
      show(lock, locks);
      light(lock, "set", one.locked);
      lock.ariaPressed = `${!!one.locked}`;
      lock.ariaLabel = lock.title = WORDS.lockOne(one.name);
      eye.ariaPressed = `${off}`;
      eye.ariaLabel = eye.title = WORDS.hideOne(one.name);
      bin.ariaLabel = bin.title = WORDS.deleteOne(one.name);
      light(eye, "set", off);
      if (on && !row.wasOn) row.scrollIntoView({ block: "nearest" });
      row.wasOn = on;
    });
  }

  // What a person says of the current object.
  writeNote() {
    const one = currentOf(this.front.state);
    if (one) this.front.write(this.note, one.note, (words) => this.front.send("note", { text: words, object: one.id }), undefined, true);
  }

  drawChecks({ checks, objects, frame }) {
    for (const part of [this.checkTitle, this.checks]) show(part, checks.length);
    const names = new Map(objects.map((one) => [one.id, one.name]));
    keyed(this.checks, checks, ({ object, frame: at, reason }) => `${object} ${at} ${reason}`,
      (row) => make("div.row.object.warn", { role: "option", tabIndex: 0, onclick: () => {
        this.front.send("select", { object: row.object });
        this.front.goto(row.frame);
      } }, icon("warn", true), make("span.n", { textContent: `${row.frame + 1}` }),
      make("span.q", { textContent: row.text })), (element, row) => {
        light(element, "on", row.frame === frame);
        element.title = `${names.get(row.object) ?? ""}: ${row.text}`;
      });
  }

  row(id) {
    const { front } = this;
    const name = make("bdi.n");
    const button = (picture, act) => make("button.hide", {
      type: "button", onclick: (event) => { event.stopPropagation(); act(); },
    }, icon(picture, true));
    return make("div.row.object", {
      role: "option", tabIndex: 0,
      onclick: ({ ctrlKey, metaKey }) => {
        if (ctrlKey || metaKey) front.chooseAlso(id);
        else if (id !== front.state.current) front.send("select", { object: id });
      },
      ondblclick: () => front.rename(name, id),
      onkeydown: ({ key, target }) => {
        if (key === "Enter" && target.role === "option") front.send("select", { object: id });
      },
    }, make("span.sw"), name, make("span.q"), make("span.t", {},
      button("lock", () => front.send("lock", { object: id, on: !front.objectOf(id).locked })),
      button("eye", () => front.dispatch({ type: "hid", number: id })),
      button("bin", () => front.send("delete", { object: id }))));
  }
}
