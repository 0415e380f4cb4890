// The front end on a page of its own: files to begin with, projects, and an address for each.

import { make } from "./dom.js";
import { Front, render } from "./front.js";
import { SocketModel } from "./wire.js";
import { WORDS } from "./words.js";

const projectOf = ({ pathname }) => /\/p\/([0-9a-f]{16})$/.exec(pathname)?.[1];
const isSaved = (file) => /\.(json|np[yz])$/i.test(file.name);

// What a page can do beside messages of the session.
class Host {
  later = []; // files with objects of images that are being opened
  seq = 0;
  model = ""; // that was chosen
  maxBytes = 0;

  constructor(base) {
    this.base = base;
    const chosen = new URLSearchParams(location.hash.slice(1));
    this.project = projectOf(location);
    this.item = chosen.get("item") || "";
    this.frame = chosen.has("frame") ? Number(chosen.get("frame")) || 0 : undefined;
    const input = (what, accept, act) => {
      const field = make(what, { type: "file", accept, multiple: true, hidden: true, onchange: () => {
        act([...field.files]);
        field.value = "";
      } });
      return field;
    };
    this.files = input("input.files", "image/*,.json,.npz,.npy", (files) => this.open(files));
    this.folder = input("input.folder", "", (files) =>
      this.open(files.filter((file) => file.type.startsWith("image/"))));
    this.folder.webkitdirectory = true;
    this.frames = input("input.frames", "", (files) =>
      this.openClip(files.filter((file) => file.type.startsWith("image/"))));
    this.frames.webkitdirectory = true;
    this.saved = input("input.saved", ".json,.npz,.npy,.png,.tif,.tiff", (files) => this.load(files));
    this.inputs = [this.files, this.folder, this.frames, this.saved];
  }

  url(name) {
    return new URL(name, this.base);
  }

  address(project) {
    return this.url(`p/${project}`).href;
  }

  begin(front, model) {
    Object.assign(this, { front, socket: model });
    model.project = this.project;
    model.on("closed", (reason) =>
      front.dispatch({ type: "linked", link: reason ? "ended" : "down", reason }));
    front.listen(document, "paste", (event) => this.open([...event.clipboardData.files]));
    for (const [kind, over] of [["dragover", true], ["dragleave", false], ["drop", false]])
      front.listen(document, kind, (event) => {
        event.preventDefault();
        front.root.classList.toggle("srx-over", over);
        if (kind === "drop") this.open([...event.dataTransfer.files]);
      });
    model.connect();
  }

  ask(head, parts = []) {
    this.socket.send({ ...head, model: this.model || undefined }, undefined, parts);
  }

  welcome(head) {
    this.maxBytes = head.max_bytes;
    document.title = `sam_rlx: ${this.model || head.models[0]}`;
    if (this.project) this.ask({ type: "resume", project: this.project, item: this.item });
  }

  opened({ project, item }) {
    this.project = this.socket.project = project;
    this.socket.opened = true;
    this.shows(item, null);
    this.load(this.later.splice(0));
  }

  resend() {
    this.socket.resend();
  }

  // The address of what is shown: it works after a reload, in another tab, tomorrow.
  shows(key, frame) {
    if (!this.project || key === undefined) return;
    this.item = key;
    const address = this.url(`p/${this.project}`);
    address.hash = new URLSearchParams({ item: key, ...(frame ? { frame } : {}) });
    if (address.href !== location.href) history.replaceState(null, "", address);
  }

  // The same project with another model.
  choose(model) {
    this.model = model;
    if (this.project) this.ask({ type: "resume", project: this.project, item: this.item });
  }

  fresh() {
    location.href = this.url(".");
  }

  remove(project) {
    this.ask({ type: "remove", project });
  }

  say(text) {
    this.front.dispatch({ type: "failed", text });
  }

  async example() {
    const answer = await fetch(this.url("example.jpg"));
    if (!answer.ok) return this.say(WORDS.noExample(answer.status));
    return this.open([new File([await answer.blob()], "coins.jpg")]);
  }

  fits(files) {
    const total = files.reduce((sum, file) => sum + file.size, 0);
    if (total <= this.maxBytes) return true;
    this.say(WORDS.tooLarge(Math.floor(this.maxBytes / 1e6), Math.ceil(total / 1e6)));
    return false;
  }

  // Open images, and load what lies beside them.
  async open(all) {
    const saved = all.filter(isSaved);
    const files = all.filter((file) => !saved.includes(file));
    if (!files.length) return this.load(saved);
    if (!this.fits(files)) return;
    this.later = saved;
    this.front.choose({ sending: files.length });
    const parts = await Promise.all(files.map((file) => file.arrayBuffer()));
    const names = files.map((file) => file.name || "image");
    this.ask({ type: "open", names, project: this.project }, parts);
  }

  // Open the numbered images of a folder as a clip.
  async openClip(files) {
    if (!files.length || !this.fits(files)) return;
    this.front.choose({ sending: files.length });
    const named = files.map((file) => [file.webkitRelativePath || file.name, file])
      .sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
    const parts = await Promise.all(named.map(([, file]) => file.arrayBuffer()));
    this.ask({ type: "open", names: named.map(([name]) => name), project: this.project, clip: true }, parts);
  }

  // Load objects that were exported.
  async load(files) {
    if (!files.length || !this.fits(files)) return;
    if (!this.project) return this.say(WORDS.loadNothing);
    for (const file of files)
      this.front.send("load", { name: file.name }, [await file.arrayBuffer()]);
  }
}

// Fill an element with the front end; `base` is the address that the server's files lie below.
function page({ base, el }) {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  document.adoptedStyleSheets.push(sheet);
  const root = make("div");
  root.className = "srx";
  el.append(make("div.host.page", {}, root));
  const address = new URL("session", base);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const host = new Host(base);
  const model = new SocketModel(address);
  const front = new Front(model, root, host);
  root.front = front; // for tests
  host.begin(front, model);
}

export default { render, page };
