// Below the image: the queue's pictures, or the frames of a clip.

import { css, icon, isStale, keyed, light, make, show, text } from "./dom.js";
import { colorOf, isClip } from "./state.js";
import { WORDS } from "./words.js";

const STEP = 84; // CSS pixels from one picture to the next
const MARKS = { done: "check", begun: "more", unreadable: "warn", "left out": "hide" };

// The pictures of the queue, of which only those that are seen exist.
export class Film {
  constructor(front) {
    this.front = front;
    this.reel = make("div.reel");
    this.scroll = make("div.film", { role: "listbox", ariaLabel: WORDS.queue,
      onscroll: () => this.draw(front.state, true) }, this.reel);
    this.said = make("span.more");
    this.element = make("div.queue", {}, this.scroll, this.said);
  }

  // The numbers of the images that are seen.
  seen(count) {
    const width = this.scroll.clientWidth || 1000;
    const first = Math.max(0, Math.floor(this.scroll.scrollLeft / STEP) - 2);
    const last = Math.min(count, first + Math.ceil(width / STEP) + 4);
    return Array.from({ length: Math.max(last - first, 0) }, (_, at) => first + at);
  }

  draw(state, scrolled = false) {
    const { image, project, thumbs, broken } = state;
    const { items } = project;
    show(this.element, image && !isClip(state) && items.length > 1);
    if (this.element.hidden) return;
    const here = broken ?? image.index;
    this.reel.style.width = `${items.length * STEP - 6}px`;
    if (!scrolled && this.here !== here) {
      this.here = here;
      const { scrollLeft, clientWidth } = this.scroll;
      if (here * STEP < scrollLeft || (here + 1) * STEP > scrollLeft + clientWidth)
        this.scroll.scrollLeft = here * STEP - clientWidth / 2;
    }
    const seen = this.seen(items.length);
    keyed(this.reel, seen, (at) => at, (at) => this.frame(at), (button, at) => {
      const item = items[at];
      light(button, "on", at === here);
      button.ariaSelected = `${at === here}`;
      button.title = button.ariaLabel = item.name;
      const mark = item.state === "begun" && !item.objects ? "" : MARKS[item.state] || "";
      const [picture, sign] = button.children;
      const address = thumbs.get(at);
      show(picture, address);
      if (address && picture.src !== address) picture.src = address;
      if (sign.kind !== mark) {
        sign.kind = mark;
        sign.replaceChildren(...(mark ? [icon(mark, true)] : []));
      }
      show(sign, mark);
      light(button, "bad", item.state === "unreadable");
      light(button, "part", item.state === "begun");
      light(button, "out", item.state === "left out");
    });
    this.front.wantThumbs(seen.filter((at) => items[at].state !== "unreadable"));
    const count = (name) => items.filter((item) => item.state === name).length;
    const [done, bad, out] = [count("done"), count("unreadable"), count("left out")];
    text(this.said, [done ? WORDS.done(done) : "", bad ? WORDS.unreadable(bad) : "", out ? WORDS.leftOut(out) : ""]
      .filter((part) => part).join(" · "));
  }

  frame(at) {
    const button = make("button", {
      type: "button", role: "option", onclick: () => this.front.goImage(at),
    }, make("img", { alt: "", draggable: false }), make("span.st"));
    button.style.left = `${at * STEP}px`;
    return button;
  }
}

export class Timeline {
  constructor(front) {
    this.front = front;
    this.player = front.button("button.icon", "play", { icon: "play" });
    this.counter = make("span.fr");
    this.back = front.button("button.small", "track_back", { text: WORDS.trackBack });
    this.forward = front.button("button.plain", "track", { icon: "play", small: true, text: WORDS.trackOn });
    this.checks = front.button("button.chip", "next_check", { icon: "warn", small: true, text: " " });
    this.seek = make("input.seek", {
      type: "range", min: 0, value: 0, ariaLabel: WORDS.frame, title: WORDS.frame,
      oninput: () => { front.play(false); front.goto(+this.seek.value); },
    });
    this.lanes = make("div.lanes");
    this.element = make("div.time", {},
      make("div.bar", {}, front.button("button.icon", "frame_back", { icon: "left" }), this.player,
        front.button("button.icon", "frame_on", { icon: "right" }), this.counter,
        make("span.gap"), this.checks, this.back, this.forward), this.seek, this.lanes);
  }

  draw(state) {
    const { image, frame, playing } = state;
    show(this.element, isClip(state));
    if (!isClip(state)) return;
    text(this.counter, WORDS.of1(frame + 1, image.frames));
    this.seek.max = image.frames - 1;
    this.seek.value = frame;
    if (this.playing !== playing) {
      this.playing = playing;
      this.player.replaceChildren(icon(playing ? "pause" : "play"));
    }
    this.forward.disabled = this.back.disabled = state.running || !state.objects.length;
    show(this.checks, state.checks.length);
    text(this.checks.lastChild, WORDS.checkCount(state.checks.length));
    keyed(this.lanes, state.objects, (one) => one.id, (one) => this.lane(one.id), (lane, one) => {
      const [label, track] = lane.children;
      const color = colorOf(state, one);
      label.firstChild.style.background = css(color);
      text(label.lastChild.firstChild, one.name);
      light(lane, "on", one.id === state.current);
      if (isStale(track, one, state.lanes.get(one.id), state.checks, `${color}`))
        track.replaceChildren(...this.marks(state, one, color), make("span.head"));
      track.lastChild.style.left = `${(100 * (frame + 0.5)) / image.frames}%`;
      track.ariaValueNow = `${frame + 1}`;
      track.ariaValueMax = `${image.frames}`;
    });
  }

  lane(id) {
    const { front } = this;
    const go = ({ buttons, clientX, currentTarget }) => {
      if (!buttons) return;
      const { left, width } = currentTarget.getBoundingClientRect();
      front.goto(Math.floor(((clientX - left) / width) * front.state.image.frames));
    };
    return make("div.lane", {}, make("button.lab", { type: "button",
      onclick: () => front.send("select", { object: id }) }, make("span.sw"), make("b", {}, make("bdi"))),
    make("span.track", { role: "slider", ariaLabel: WORDS.frame, ariaValueMin: "1", tabIndex: 0,
      onpointerdown: go, onpointermove: go }));
  }

  // Runs of frames with a mask, hatched where they are to be checked; dots where there are prompts,
  // squares where a frame was done by hand.
  *marks({ lanes, checks, image: { frames: count } }, one, color) {
    const lane = lanes.get(one.id) || new Map();
    const asked = new Set(checks.filter((row) => row.object === one.id).map((row) => row.frame));
    const place = (element, from, to) => {
      element.style.left = `${(100 * from) / count}%`;
      if (to !== undefined) element.style.width = `${(100 * (to - from)) / count}%`;
      return element;
    };
    const frames = [...lane.keys()].sort((a, b) => a - b);
    for (let at = 0; at < frames.length;) {
      const [from, ask] = [frames[at], asked.has(frames[at])];
      let to = from;
      while (at < frames.length && frames[at] === to && asked.has(to) === ask) [at, to] = [at + 1, to + 1];
      const span = place(make(ask ? "span.span.ask" : "span.span"), from, to);
      span.style.setProperty("--c", css(color));
      yield span;
    }
    for (const [from, to] of one.stale || []) yield place(make("span.stale"), from, to);
    const given = [...one.points.map((each) => each[3]), ...one.boxes.map((each) => each[4])];
    for (const at of new Set(given)) yield place(make("span.dot"), at + 0.5);
    for (const [at, letter] of lane)
      if (letter === "h") yield place(make("span.dot.hand"), at + 0.5);
    for (const at of one.gone || []) yield place(make("span.gone"), at + 0.5);
  }
}

export class Strip {
  constructor(front) {
    this.parts = [new Film(front), new Timeline(front)];
    this.element = make("section.strip", {}, ...this.parts.map((part) => part.element));
  }

  draw(state) {
    for (const part of this.parts) part.draw(state);
    show(this.element, this.parts.some((part) => !part.element.hidden));
  }
}
