// Messages: to a session by a notebook's comm or a page's socket, and what waits for an answer.

import { now } from "./dom.js";

const SLOW = 500; // ms
const UNHEARD = 10000; // ms without any message of the session
const UNANSWERED = new Set(["leave", "bye", "stop"]);

const bytesOf = (part) =>
  part instanceof ArrayBuffer
    ? new Uint8Array(part)
    : new Uint8Array(part.buffer, part.byteOffset, part.byteLength);

async function inflated(part) {
  const stream = new Blob([part]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export class Wire {
  id = Math.random().toString(36).slice(2);
  seq = 0;
  waiting = new Map(); // seq -> {time, type, fields}, until answered
  heard = false;
  gone = false;
  ends = [];
  nudgedFrom = 0; // when it began
  nudgeAt = 0;
  inflating = null; // settled when the messages that came so far were heard

  // `hear(head, buffers, asked)` takes messages, and what they answer; `lose()` is called at the end of the connection.
  constructor(model, hear, lose) {
    this.model = model;
    this.hear = hear;
    this.begunAt = this.readyAt = now();
    this.on("msg:custom", (head, buffers) => this.take(head, (buffers || []).map(bytesOf)));
    for (const name of ["comm_live_update", "comm:close", "destroy"])
      this.on(name, () => {
        this.gone = true;
        this.waiting.clear();
        lose();
      });
    // marimo runs dependent cells for what a view sets.
    this.on("change:revision", () => setTimeout(() => this.echo()));
  }

  on(name, handler) {
    this.model.on(name, handler);
    this.ends.push(() => this.model.off?.(name, handler));
  }

  end() {
    this.send("bye");
    for (const end of this.ends) end();
  }

  echo() {
    const revision = this.model.get("revision");
    if (revision === this.echoed) return;
    this.echoed = revision;
    this.model.set("revision", revision);
    this.model.save_changes();
  }

  // The number of the message.
  // What is not kept is not sent again after a break.
  send(type, fields = {}, buffers = undefined, kept = true) {
    const seq = ++this.seq;
    if (this.gone) return seq;
    if (!UNANSWERED.has(type)) this.waiting.set(seq, { time: now(), type, fields });
    this.model.send({ type, view: this.id, seq, ...fields }, undefined, buffers, kept);
    return seq;
  }

  // Messages are heard in their order, also where some have to be inflated before.
  take(head, buffers) {
    this.heard = true;
    if (head.to && head.to !== this.id && head.to !== "page") return;
    if (!this.inflating && !head.deflated?.length) return this.deliver(head, buffers);
    const ready = Promise.all(buffers.map((part, at) => (head.deflated?.includes(at) ? inflated(part) : part)));
    const turn = Promise.all([ready, this.inflating]).then(([all]) => {
      if (this.inflating === turn) this.inflating = null;
      this.deliver(head, all);
    }).catch(reportError);
    this.inflating = turn;
  }

  deliver(head, buffers) {
    const asked = head.answer?.view === this.id ? this.waiting.get(head.answer.seq) : undefined;
    if (asked) this.waiting.delete(head.answer.seq);
    this.gone = false;
    this.hear(head, buffers, asked);
  }

  get slow() {
    return this.asked.some(({ time }) => now() - time > SLOW);
  }

  get busy() {
    return this.asked.length > 0;
  }

  // What a person waits for.
  get asked() {
    return [...this.waiting.values()].filter(({ type }) => !["thumbnail", "tiles"].includes(type));
  }

  // Clicks and strokes that wait for their answer.
  get drawn() {
    return [...this.waiting.values()].filter(({ type }) => ["click", "stroke", "lasso"].includes(type));
  }

  // The object that will be the current one: of the last choice that waits for its answer, or `now`.
  chosen(now) {
    const choices = [...this.waiting.values()].filter(({ type }) => type === "select");
    return choices.length ? choices[choices.length - 1].fields.object : now;
  }

  get unheard() {
    return !this.heard && now() - this.begunAt > UNHEARD;
  }

  // Begin, or begin again: a message may have come while nobody was there.
  ready(again = false) {
    this.readyAt = now();
    const seq = this.send("ready", { edits: true, ...(again ? { again } : {}) });
    if (again) this.waiting.delete(seq); // not always answered
  }

  // Called several times a second. The first `ready` may wait behind a running cell; a later one
  // need not. Some hosts (Shiny) hold messages of the session back until one of a view comes: ask
  // ever more seldom, since others keep all that are sent while a cell runs.
  tick(begun, working) {
    if (!begun && !this.gone && now() - this.readyAt > 2000) this.ready(true);
    if (!this.slow && !working) this.nudgedFrom = 0;
    else {
      this.nudgedFrom ||= now();
      if (now() < this.nudgeAt) return;
      this.nudgeAt = now() + Math.max(SLOW, (now() - this.nudgedFrom) / 4);
      this.waiting.delete(this.send("ready", { edits: true, again: true }));
    }
  }
}

// ---- a page: messages over a WebSocket. A message is the length of its head (4 bytes), the head as
// JSON, and its buffers.

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function packed(head, buffers = []) {
  const lengths = buffers.map((part) => part.byteLength);
  const words = encoder.encode(JSON.stringify({ ...head, buffers: lengths }));
  const total = 4 + words.length + lengths.reduce((sum, length) => sum + length, 0);
  const out = new Uint8Array(total);
  new DataView(out.buffer).setUint32(0, words.length, true);
  out.set(words, 4);
  let to = 4 + words.length;
  for (const part of buffers) {
    out.set(bytesOf(part), to);
    to += part.byteLength;
  }
  return out;
}

function unpacked(message) {
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

// What is never sent again, since it changes nothing that is kept.
const PASSING = new Set(["ready", "bye", "leave", "hover", "stop", "frame", "thumbnail", "tiles", "image", "export",
  "load", "import_as", "open", "resume", "remove"]);
const OF_PAGE = new Set(["open", "resume", "remove"]); // what needs no session
const OUTBOX = "sam_rlx outbox";
const MOST = 256; // gestures
const PAUSES = [250, 500, 1000, 2000, 5000]; // ms between attempts to connect

// What a person has done: kept until it is answered, and sent again after a break.
class Outbox {
  constructor() {
    this.waiting = new Map(JSON.parse(sessionStorage.getItem(OUTBOX) || "[]"));
  }
  keep(head, project) {
    if (PASSING.has(head.type) || this.waiting.size >= MOST) return;
    this.waiting.set(`${head.view}:${head.seq}`, { ...head, project });
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

// What the front end takes for the model of a widget, on a page: a socket that is opened again.
export class SocketModel {
  listeners = new Map();
  outbox = new Outbox();
  project = undefined; // whose gestures these are
  opened = false; // whether its session is there since the last break: what is done before waits
  attempt = 0;

  constructor(address) {
    this.address = address;
    addEventListener("beforeunload", (event) => {
      if (this.outbox.waiting.size) event.preventDefault();
    });
  }

  connect() {
    this.opened = false;
    this.socket = new WebSocket(this.address);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (event) => {
      const { head, buffers } = unpacked(event.data);
      this.attempt = 0;
      if (head.answer) this.outbox.answered(head.answer);
      this.tell("msg:custom", head, buffers);
    };
    this.socket.onclose = ({ reason }) => {
      this.tell("closed", reason);
      if (reason) return;
      const pause = PAUSES[Math.min(this.attempt++, PAUSES.length - 1)];
      setTimeout(() => this.connect(), pause);
    };
  }

  get() {}
  set() {}
  save_changes() {}

  on(event, callback) {
    if (!this.listeners.has(event)) this.listeners.set(event, new Set());
    this.listeners.get(event).add(callback);
  }

  off(event, callback) {
    this.listeners.get(event)?.delete(callback);
  }

  send(head, _, buffers, kept = true) {
    if (kept) this.outbox.keep(head, this.project);
    if (this.socket?.readyState === WebSocket.OPEN && (this.opened || OF_PAGE.has(head.type)))
      this.socket.send(packed(head, buffers));
  }

  // Send again what a break has cost.
  resend() {
    for (const { project: _, ...head } of this.outbox.of(this.project))
      this.socket.send(packed(head));
  }

  tell(event, ...values) {
    for (const callback of [...(this.listeners.get(event) || [])]) callback(...values);
  }
}
