// The host of the front end on a page: messages over a WebSocket, and files to begin with.
// A message is the length of its head (4 bytes), the head as JSON, and its buffers.

// What lies beside this file: the token is a part of its address.
const url = (name) => new URL(name, import.meta.url);
const at = (id) => document.getElementById(id);
const encoder = new TextEncoder();
const decoder = new TextDecoder();

function pack(head, buffers = []) {
  const lengths = buffers.map((part) => part.byteLength);
  const text = encoder.encode(JSON.stringify({ ...head, buffers: lengths }));
  const total = 4 + text.length + lengths.reduce((sum, length) => sum + length, 0);
  const out = new Uint8Array(total);
  new DataView(out.buffer).setUint32(0, text.length, true);
  out.set(text, 4);
  let to = 4 + text.length;
  for (const part of buffers) {
    out.set(ArrayBuffer.isView(part)
      ? new Uint8Array(part.buffer, part.byteOffset, part.byteLength)
      : new Uint8Array(part), to);
    to += part.byteLength;
  }
  return out;
}

function unpack(message) {
  const length = new DataView(message).getUint32(0, true);
  const head = JSON.parse(decoder.decode(new Uint8Array(message, 4, length)));
  let from = 4 + length;
  const buffers = (head.buffers || []).map((size) => {
    const part = new DataView(message, from, size);
    from += size;
    return part;
  });
  return { head, buffers };
}

// What a person has done: kept until it is answered, and sent again after a break.
const GESTURES = new Set(["click", "box", "undo", "redo", "delete", "commit", "cancel", "select",
  "candidate", "rename", "recolor", "text", "everything", "pick"]);
const OUTBOX = "sam_rlx outbox";
const MOST = 256; // gestures
const PAUSES = [250, 500, 1000, 2000, 5000]; // ms between attempts to connect

class Outbox {
  constructor() {
    this.waiting = new Map(JSON.parse(sessionStorage.getItem(OUTBOX) || "[]"));
  }
  keep(head) {
    if (!GESTURES.has(head.type) || this.waiting.size >= MOST) return;
    this.waiting.set(`${head.view}:${head.seq}`, { ...head, project: projectOf(location) });
    this.store();
  }
  answered({ view, seq }) {
    if (this.waiting.delete(`${view}:${seq}`)) this.store();
  }
  // What was done in a project and not answered.
  of(project) {
    return [...this.waiting.values()].filter((head) => head.project === project);
  }
  store() {
    sessionStorage.setItem(OUTBOX, JSON.stringify([...this.waiting]));
  }
}

const projectOf = ({ pathname }) => /\/p\/([0-9a-f]{16})$/.exec(pathname)?.[1];

// What the front end takes for the model of a widget.
class SocketModel {
  constructor(socket, outbox) {
    this.socket = socket;
    this.outbox = outbox;
    this.values = new Map();
    this.listeners = new Map();
  }
  get(name) {
    return this.values.get(name);
  }
  set(name, value) {
    this.values.set(name, value);
  }
  save_changes() {}
  on(event, callback) {
    if (!this.listeners.has(event)) this.listeners.set(event, new Set());
    this.listeners.get(event).add(callback);
  }
  off(event, callback) {
    if (callback) this.listeners.get(event)?.delete(callback);
    else this.listeners.delete(event);
  }
  send(head, callbacks, buffers) {
    this.outbox.keep(head);
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(pack(head, buffers));
  }
  tell(event, ...values) {
    for (const callback of [...(this.listeners.get(event) || [])]) callback(...values);
  }
}

class Page {
  constructor(front) {
    this.front = front;
    this.model = null; // of the images that are open
    this.end = null;
    this.maxBytes = 0;
    this.seq = 0; // of what the page itself asks
    this.noted = ""; // of the images that are being opened
    this.later = []; // files with objects of images that are being opened
    this.outbox = new Outbox();
    this.project = projectOf(location);
    this.item = new URLSearchParams(location.hash.slice(1)).get("item") || "";
    this.attempt = 0;
    this.connect();
    addEventListener("beforeunload", (event) => {
      if (this.outbox.waiting.size) event.preventDefault();
    });
    at("fresh").onclick = () => { location.href = url("."); };
    at("choose").onclick = () => at("files").click();
    at("example").onclick = () => this.example();
    at("files").onchange = (event) => {
      this.open([...event.target.files]);
      event.target.value = "";
    };
    at("load").onclick = () => at("saved").click();
    at("saved").onchange = (event) => {
      this.load([...event.target.files]);
      event.target.value = "";
    };
    document.addEventListener("paste", (event) => this.open([...event.clipboardData.files]));
    document.addEventListener("dragover", (event) => this.over(event, true));
    document.addEventListener("dragleave", (event) => this.over(event, false));
    document.addEventListener("drop", (event) => {
      this.over(event, false);
      this.open([...event.dataTransfer.files]);
    });
  }

  connect() {
    const address = url("session");
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (event) => this.take(unpack(event.data));
    this.socket.onclose = (event) => this.closed(event);
  }

  say(text, bad = false) {
    at("say").textContent = text;
    at("say").classList.toggle("bad", bad);
  }

  over(event, on) {
    event.preventDefault();
    document.body.classList.toggle("over", on);
  }

  take({ head, buffers }) {
    if (head.answer) this.outbox.answered(head.answer);
    if (head.type === "image") this.shows(head);
    if (head.type === "welcome") this.welcome(head);
    else if (head.type === "opened") this.opened(head);
    else if (head.type === "projects") this.list(head.projects);
    else if (head.type === "error" && !head.answer) this.say(head.text, true);
    else if (head.to === "page") this.told(head);
    else this.model?.tell("msg:custom", head, buffers);
  }

  told(head) {
    if (head.type === "error") return this.say(head.text, true);
    if (head.type === "note") return this.say((this.noted = head.text));
    if (head.type !== "loaded") return;
    const absent = head.absent.length ? `; not open: ${head.absent.slice(0, 5).join(", ")}` : "";
    const rest = head.passed_over ? `; without a mask: ${head.passed_over}` : "";
    this.say(`Objects loaded: ${head.objects}${absent}${rest}`);
  }

  welcome(head) {
    this.maxBytes = head.max_bytes;
    const select = at("models");
    select.replaceChildren(...head.models.map((name) => new Option(name, name)));
    select.hidden = head.models.length < 2;
    document.title = `sam_rlx: ${head.models[0]}`;
    this.attempt = 0;
    this.say("");
    this.list(head.projects);
    if (this.project) this.ask({ type: "resume", project: this.project, item: this.item });
  }

  ask(head, parts = []) {
    this.socket.send(pack({ ...head, model: at("models").value || undefined }, parts));
  }

  // The projects of this machine, to go on with or to remove.
  list(projects) {
    at("projects").replaceChildren(...projects.map(({ id, images, changed }) => {
      const row = document.createElement("li");
      const link = Object.assign(document.createElement("a"), {
        href: url(`p/${id}`),
        textContent: `${images} image${images === 1 ? "" : "s"}, ${new Date(1000 * changed).toLocaleString()}`,
      });
      const remove = Object.assign(document.createElement("button"), {
        textContent: "Remove",
        onclick: () => confirm(`Remove this project with its images?`) &&
          this.ask({ type: "remove", project: id }),
      });
      row.append(link, " ", remove);
      return row;
    }));
    at("known").hidden = !projects.length;
  }

  // The address of what is shown: it works after a reload, in another tab, tomorrow.
  shows({ key }) {
    if (!this.project) return;
    this.item = key;
    const address = url(`p/${this.project}`);
    address.hash = new URLSearchParams({ item: key });
    history.replaceState(null, "", address);
  }

  async example() {
    const answer = await fetch(url("example.jpg"));
    if (!answer.ok) return this.say(`The example did not come: ${answer.status}`, true);
    return this.open([new File([await answer.blob()], "coins.jpg")]);
  }

  fits(files) {
    const total = files.reduce((sum, file) => sum + file.size, 0);
    if (total <= this.maxBytes) return true;
    const most = Math.floor(this.maxBytes / 1e6);
    this.say(`At most ${most} MB at once; these are ${Math.ceil(total / 1e6)} MB.`, true);
    return false;
  }

  // Open images, and load what lies beside them.
  async open(all) {
    const saved = all.filter((file) => /\.(json|np[yz])$/i.test(file.name));
    const files = all.filter((file) => !saved.includes(file));
    if (!files.length) return this.load(saved);
    if (!this.fits(files)) return;
    this.later = saved;
    this.say("Sending");
    const parts = await Promise.all(files.map((file) => file.arrayBuffer()));
    const names = files.map((file) => file.name || "image");
    this.ask({ type: "open", names, project: this.project }, parts);
  }

  // Load objects that were exported.
  async load(files) {
    if (!files.length || !this.fits(files)) return;
    if (!this.model) return this.say("Open the image of these objects first, or both at once.", true);
    for (const file of files) {
      const head = { type: "load", view: "page", seq: ++this.seq, name: file.name };
      this.socket.send(pack(head, [await file.arrayBuffer()]));
    }
  }

  opened({ project, item }) {
    this.project = project;
    this.shows({ key: item });
    this.say(this.noted);
    this.noted = "";
    this.end?.();
    at("view").replaceChildren();
    at("drop").hidden = true;
    this.model = new SocketModel(this.socket, this.outbox);
    this.end = this.front.render({ model: this.model, el: at("view") });
    at("load").hidden = at("fresh").hidden = false;
    for (const { project: _, ...head } of this.outbox.of(project)) this.socket.send(pack(head));
    this.load(this.later.splice(0));
  }

  closed(event) {
    const reason = event.reason ? ` (${event.reason})` : "";
    if (reason) return this.say(`The server has ended the connection${reason}.`, true);
    const pause = PAUSES[Math.min(this.attempt++, PAUSES.length - 1)];
    this.say("Reconnecting, your work is kept", true);
    return setTimeout(() => this.connect(), pause);
  }
}

const { default: front } = await import(url("front.js"));
globalThis.page = new Page(front);
