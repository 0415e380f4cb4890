// What lies over the view for a moment: menus, dialogs, and the cards of an empty view and of an
// image that cannot be read.

import { icon, keyed, light, make, show, text } from "./dom.js";
import { isClip, isLeftOut } from "./state.js";
import { WORDS } from "./words.js";

const LEAST = 0.5; // score of what words find, if nobody chose another

const labelled = (words, field) => make("label.field", {}, make("span", { textContent: words }), field);

const choice = (words, options, value, act) => {
  const select = make("select", { ariaLabel: words, onchange: () => act(select.value) });
  for (const [name, title] of options) select.append(make("option", { value: name, textContent: title }));
  select.value = value;
  return labelled(words, select);
};

// A box below a button, which goes at a click elsewhere.
class Popover {
  constructor(front) {
    this.front = front;
    this.element = make("div.menu", { hidden: true });
    front.listen(front.root, "pointerdown", ({ target }) => {
      if (!this.element.contains(target) && !this.anchor?.contains(target)) this.close();
    });
  }

  toggle(anchor) {
    if (!this.element.hidden) return this.close();
    this.anchor = anchor;
    this.fill(this.front.state);
    this.element.hidden = false;
    const [box, whole] = [anchor, this.front.root].map((one) => one.getBoundingClientRect());
    const most = whole.width - this.element.offsetWidth - 8;
    this.element.style.left = `${Math.max(8, Math.min(box.left - whole.left, most))}px`;
    this.element.style.top = `${box.bottom - whole.top + 4}px`;
    return this.element.querySelector("button, input, select")?.focus();
  }

  close() {
    if (this.element.hidden) return false;
    this.element.hidden = true;
    this.front.focus();
    return true;
  }
}

// The menu of the project.
export class ProjectMenu extends Popover {
  fill(state) {
    const { front } = this;
    const { host } = front;
    const item = (picture, words, act) => make("button.item", {
      type: "button", onclick: () => { this.close(); act(); },
    }, icon(picture, true), words);
    const models = state.page?.models || [];
    this.element.replaceChildren(...[
      host && item("images", WORDS.addImages, () => host.files.click()),
      host && item("play", WORDS.openFrames, () => host.frames.click()),
      host && state.image && item("down", WORDS.loadObjects, () => host.saved.click()),
      state.image && front.can("import_as") && item("folder", WORDS.bringTitle, () => front.importing.ask()),
      host && state.image && item("plus", WORDS.fresh, () => host.fresh()),
      state.image && front.can("leave_out") &&
        item("hide", isLeftOut(state) ? WORDS.takeIn : WORDS.leaveOut, () => front.act("leave_out")),
      item("keys", WORDS.keys, () => front.act("help")),
      models.length > 1 && choice(WORDS.model, models.map((name) => [name, name]),
        host.model || models[0], (name) => { this.close(); host.choose(name); }),
      choice(WORDS.scheme, Object.entries(WORDS.schemes), state.scheme, (scheme) => front.paint(scheme)),
      state.about?.where && make("p.soft", { textContent: state.about.where }),
    ].filter((part) => part));
  }
}

// How words are searched for: the least score, and example boxes.
export class SearchMenu extends Popover {
  fill(state) {
    const { front } = this;
    const least = make("input.threshold", {
      type: "number", min: 0, max: 1, step: 0.05, value: state.threshold ?? LEAST,
      onchange: () => front.choose({ threshold: Math.min(Math.max(+least.value, 0), 1) }),
    });
    const like = (label, words) => make("button.plain", {
      type: "button", textContent: words,
      onclick: () => { this.close(); front.choose({ example: label }); },
    });
    const clip = isClip(state);
    const all = make("button.plain", { type: "button", textContent: clip ? WORDS.trackWords : WORDS.findAll,
      onclick: () => { this.close(); front.findAll(); } });
    this.element.replaceChildren(labelled(WORDS.threshold, least), all,
      ...(clip ? [] : [like(1, WORDS.examplePlus), like(0, WORDS.exampleMinus)]), ...(state.examples.length
        ? [make("button.plain", {
          type: "button", textContent: WORDS.exampleNone,
          onclick: () => { this.close(); front.choose({ examples: [], example: null }); },
        })] : []));
  }
}

class Dialog {
  constructor(front) {
    this.front = front;
    this.element = make("dialog.dialog", { onclose: () => front.focus() });
  }

  open(...parts) {
    this.element.replaceChildren(...parts);
    this.element.showModal();
  }

  // The head, with a button that closes.
  head(title, more = "") {
    return make("header", {}, make("h1", { textContent: title }), make("bdi.soft", { textContent: more }),
      make("span.gap"), make("button.icon", {
        type: "button", title: WORDS.close, ariaLabel: WORDS.close, onclick: () => this.element.close(),
      }, icon("close", true)));
  }
}

const radios = (name, options) => make("span.seg", { role: "radiogroup" },
  ...options.map(([value, words], at) => make("label", {},
    make("input", { type: "radio", name: `srx-${name}`, value, checked: !at }), words)));

const cancelling = ({ element }) => make("button.plain", { type: "button", textContent: WORDS.cancel,
  onclick: () => element.close() });

// One file that can be loaded again, or a folder of another program's form, as a ZIP.
export class ExportDialog extends Dialog {
  ask() {
    const { state } = this.front;
    const { project: { items }, objects, image, about } = state;
    const forms = (state.about?.forms || []).map(({ name, title, loses }) => {
      const [head, what = ""] = title.split(": ");
      return [name, head[0].toUpperCase() + head.slice(1),
        [what, loses && WORDS.loses(loses)].filter((part) => part).join("; ")];
    });
    const choices = [["", ...WORDS.oneFile], ...forms].map(([form, title, what], at) =>
      make("label.form", {}, make("input", { type: "radio", name: "srx-form", value: form, checked: !at, onchange: () => this.draw() }),
      make("b", { textContent: title }), make("small", { textContent: what })));
    const taken = items.filter((item) => item.state !== "left out");
    const count = (test) => taken.filter(test).length;
    const option = (name, words, options) => {
      const element = labelled(words, radios(name, options));
      element.name = name;
      return element;
    };
    this.options = [option("images", WORDS.images_, [
      ["some", WORDS.withObjects(count((item) => item.objects))],
      ["done", WORDS.areDone(count((item) => item.state === "done"))], ["all", WORDS.all(taken.length)]]),
    option("task", WORDS.task, WORDS.tasks),
    option("tolerance", WORDS.outlines, WORDS.tolerances),
    option("split", WORDS.validation, WORDS.splits)];
    this.open(make("form.export", { method: "dialog", onsubmit: () => this.write() },
      this.head(WORDS.export, items.length > 1 ? about?.name : image.name), make("div.forms", {}, ...choices), ...this.options,
      make("p.soft", { textContent: objects.length || count((item) => item.objects) ? "" : WORDS.nothingToExport }),
      make("footer", {}, cancelling(this), make("button.main", { textContent: WORDS.download }))));
    this.draw();
    choices[0].firstChild.focus();
  }

  get chosen() {
    return this.element.querySelector("input[name=srx-form]:checked");
  }

  draw() {
    const { value: form } = this.chosen;
    for (const option of this.options)
      show(option, form && (option.name === "images" || form === "yolo" ||
        (option.name === "tolerance" && ["labelme", "isat", "geojson", "coco"].includes(form))));
  }

  write() {
    const { value: form } = this.chosen;
    if (!form) return this.front.send("export", { format: "coco" });
    const fields = { form };
    for (const option of this.options)
      if (!option.hidden) {
        const { value } = option.querySelector("input:checked");
        if (value) fields[option.name] = ["tolerance", "split"].includes(option.name) ? +value : value;
      }
    return this.front.send("export_as", fields);
  }
}

// What files of another program would add, before they do.
export class ImportDialog extends Dialog {
  ask() {
    this.field = make("input.importfile", { type: "file", accept: ".zip,.json,.xml,.txt,.png",
      ariaLabel: WORDS.bringFile, onchange: () => this.look() });
    this.said = make("div.brought", { role: "status" });
    this.add = make("button.main", { textContent: WORDS.bringAdd, disabled: true });
    this.open(make("form.export", { method: "dialog", onsubmit: (event) => {
      event.preventDefault();
      this.send(true);
    } }, this.head(WORDS.bringTitle, ""), make("p.soft", { textContent: WORDS.bringHow }), this.field,
    this.said, make("footer", {}, cancelling(this), this.add)));
  }

  async look() {
    const [file] = this.field.files;
    const { host } = this.front;
    if (!file || (host && !host.fits([file]))) return;
    this.file = { name: file.name, contents: await file.arrayBuffer() };
    this.send(false);
  }

  send(add) {
    this.add.disabled = true;
    text(this.said, WORDS.bringReads);
    this.front.send("import_as", { name: this.file.name, add }, [this.file.contents]);
  }

  fail(words) {
    text(this.said, words);
  }

  tell(head, title) {
    if (head.added) this.element.close();
    const lines = [WORDS.bringFound(title, head.objects), WORDS.bringMatched(head.matched),
      WORDS.bringClasses(head.classes), WORDS.bringAbsent(head.absent, head.absent_count)];
    this.said.replaceChildren(...lines.filter((line) => line)
      .map((line) => make("p", {}, make("bdi", { textContent: line }))));
    this.add.disabled = !head.objects;
    this.add.focus();
  }
}

// Which class the objects of a removed one get.
export class SuccessorDialog extends Dialog {
  ask(number) {
    const { front } = this;
    const { classes } = front.state.project;
    const known = classes.find((one) => one.number === number);
    const others = classes.filter((one) => one !== known);
    let successor = others[0].number;
    this.open(make("form", { method: "dialog",
      onsubmit: () => front.send("class_remove", { class_number: number, successor }) },
    this.head(WORDS.removeClass(known.name)),
    choice(WORDS.successor(known.name), others.map((one) => [one.number, one.name]), successor,
      (value) => { successor = +value; }),
    make("footer", {}, cancelling(this), make("button.main", { textContent: WORDS.remove }))));
  }
}

// All keys, from the session's table.
export class KeysDialog extends Dialog {
  ask() {
    const { front } = this;
    const rows = (front.state.about?.keys || []).filter(({ keys, mouse }) => keys.length + mouse.length);
    this.open(this.head(WORDS.keys), make("div.keys", {}, ...rows.map(({ title, keys, mouse }) =>
      make("div.key", {}, make("span", {}, ...[...mouse, ...keys].map((key) =>
        make("kbd", { textContent: key }))), make("span", { textContent: title })))),
    make("footer", {}, make("p.soft", {
      textContent: `${front.host ? "" : `${WORDS.keysWidget} `}${WORDS.keysChanged}`,
    })));
  }
}

// What is seen of a page before there is an image.
export class Empty {
  constructor(front) {
    this.front = front;
    const { host } = front;
    const button = (what, words, act) =>
      make(what, { type: "button", textContent: words, onclick: act });
    this.rows = make("div.rows");
    this.goOn = make("div.goon", {}, make("h2", { textContent: WORDS.goOn }), this.rows);
    this.element = make("section.middle.empty", { hidden: true }, make("div.card", {},
      make("div.drop", {}, make("div.pics", {}, make("span", {}, icon("images")),
        make("span", {}, icon("folder"))),
      make("h1", { textContent: WORDS.emptyTitle }), make("p", { textContent: WORDS.emptyText }),
      make("div.btns", {}, button("button.main.openfiles", WORDS.openFiles, () => host.files.click()),
        button("button.plain", WORDS.openFolder, () => host.folder.click()),
        button("button.plain", WORDS.openFrames, () => host.frames.click()),
        button("button.plain.example", WORDS.example, () => host.example()))), this.goOn));
  }

  draw(state) {
    const { host } = this.front;
    show(this.element, host && !state.image && state.page);
    light(this.front.app, "bare", !state.image);
    const projects = state.page?.projects || [];
    show(this.goOn, projects.length);
    keyed(this.rows, projects, ({ id }) => id, ({ id }) => make("div.known", {},
      make("a", { href: host.address(id) }, icon("images"), make("bdi"), make("small")),
      make("button.icon", {
        type: "button", title: WORDS.remove, ariaLabel: WORDS.remove,
        onclick: () => confirm(WORDS.removeAsk) && host.remove(id),
      }, icon("bin", true))), (row, { images, done, changed }) => {
      const [, title, line] = row.firstChild.children;
      text(title, WORDS.images(images));
      const when = new Date(1000 * changed).toLocaleString();
      text(line, done === null ? when : `${WORDS.doneOf(done, images)} · ${when}`);
    });
  }
}

export class Broken {
  constructor(front) {
    this.front = front;
    this.title = make("h1");
    this.reason = make("p");
    this.element = make("section.middle.broken", { hidden: true }, make("div.card", {},
      make("div.badpic", {}, icon("warn")), this.title, this.reason,
      make("p.soft", { textContent: WORDS.brokenText }), make("div.btns", {},
        make("button.main", { type: "button", textContent: WORDS.nextImage, onclick: () => front.act("next") }),
        make("button.plain", { type: "button", textContent: WORDS.again,
          onclick: () => front.send("image", { index: front.state.broken }) }))));
  }

  draw({ broken, project }) {
    show(this.element, broken !== null);
    if (broken === null) return;
    const { name, reason } = project.items[broken];
    text(this.title, WORDS.brokenTitle(name));
    text(this.reason, reason);
  }
}
