// All that is known of the session, and all that this view has chosen. `reduce` is pure: from a state
// and an event it makes the next state. Events are the messages of the session, by their types, and
// what a person or the browser does here.

import { clamp } from "./dom.js";
import { masksOf } from "./masks.js";

const KEPT_FRAMES = 48;
const MOST_SCALE = 40;

export const START = {
  // of the session
  image: null, // its head
  objectless: false, // whether the objects of the image are on their way
  bitmap: null,
  objects: [],
  current: null, // number of the object that prompts change
  since: 0, // the record of the history after which it became that
  canUndo: false,
  canRedo: false,
  undo: "",
  redo: "",
  n: 0,
  readOnly: "",
  elsewhere: "", // the address of a server that can write it
  unsaved: "",
  masks: new Map(), // id of a mask -> {head, bits}
  tiles: new Map(), // "level/column/row" -> bitmap: parts of a large image
  fine: null, // masks of what is seen at full resolution: {key, n, box, masks}
  layer: null, // {labels, size, count}
  hover: null, // {head, bits, seq}
  frames: new Map(), // number -> {bitmap, masks: [{head, bits}]}
  running: false, // tracking
  done: 0,
  total: 0,
  status: { text: "", part: null, stops: false },
  note: null, // {text, actions}
  error: "",
  answers: [], // to the prompts of the current object: [{mask, score, step}]
  classNumber: 1, // of the next object
  othersStay: true,
  about: null, // {name, kept, where, model, keys}
  project: { classes: [], items: [] },
  thumbs: new Map(), // number of an image -> address of its picture
  // of the connection
  link: "open", // open, down, ended, gone
  reason: "",
  heard: false,
  slow: false,
  unheard: false,
  page: null, // {models, maxBytes, projects}: of a page
  sending: 0, // files that are being sent
  // of this view
  frame: 0,
  playing: false,
  tool: "click",
  moving: false, // the view, while a key is held
  example: null, // 0 or 1: a drag gives an example box of this label
  examples: [],
  chosen: new Set(), // numbers of objects beside the current one
  checks: [], // rows of what is to be checked: {object, frame, reason, text}
  lanes: new Map(), // number of an object -> Map of frame -> letter
  threshold: null,
  pointer: null, // where it is, {x, y, u, v}
  pointed: null, // number of the kept object under it, which a click selects
  drag: null, // what is being dragged
  pending: [], // clicks that wait for their answer
  radius: 12, // of the brush, in pixels of the image
  aimed: null, // where keys aim
  broken: null, // number of an image that cannot be read, and is looked at
  opacity: 0.45,
  outline: false,
  names: true,
  hidden: new Set(), // numbers of objects
  scheme: "auto",
  drawer: false, // whether a narrow view shows its objects
  stage: { width: 0, height: 0, ratio: 1 },
  zoom: { scale: 1, left: 0, top: 0, fitted: true },
};

export const isClip = (state) => state.image?.kind === "video";
export const objectOf = (state, number) => state.objects.find((one) => one.id === number);
export const currentOf = (state) => objectOf(state, state.current);

// Whether what is shown is left out of exports.
export const isLeftOut = ({ image, project }) => project.items[image?.index]?.state === "left out";

// The colour in which an object is seen: that of its class where there are several.
export function colorOf({ project: { classes } }, one) {
  const own = classes.length > 1 && classes.find(({ number }) => number === one.class);
  return own ? own.color : one.color;
}

// Whether a position lies on the image.
export const isInside = ({ image }, at) =>
  !!image && at.x >= 0 && at.y >= 0 && at.x < image.width && at.y < image.height;

const room = ({ stage: { width, height } }) => {
  const pad = width < 700 ? 0 : width < 900 ? 10 : 20;
  return [Math.max(width - 2 * pad, 1), Math.max(height - 2 * pad, 1)];
};

// The scale at which the whole image is seen.
export function wholeScale(state) {
  if (!state.image) return 1;
  const [width, height] = room(state);
  return Math.min(width / state.image.width, height / state.image.height);
}

function fitted(state) {
  const scale = wholeScale(state);
  const { image, stage } = state;
  if (!image) return state.zoom;
  return { scale, left: (stage.width - image.width * scale) / 2,
    top: (stage.height - image.height * scale) / 2, fitted: true };
}

// The part of the image that is seen, [x0, y0, x1, y1].
export function seenBox({ image, stage, zoom: { scale, left, top } }) {
  const side = (at, most) => clamp(at / scale, 0, most);
  return [side(-left, image.width), side(-top, image.height), side(stage.width - left, image.width),
    side(stage.height - top, image.height)];
}

// Masks at full resolution, if they are wanted: false for no; null for wanted and not there.
export function fineMasks(state) {
  const { image, zoom, stage, fine, n } = state;
  if (!image || isClip(state) || image.step === 1 || zoom.scale * stage.ratio * image.step < 1.5)
    return false;
  const [x0, y0, x1, y1] = seenBox(state);
  const there = fine && fine.key === image.key && fine.n >= n && fine.box[0] <= x0 &&
    fine.box[1] <= y0 && fine.box[2] >= x1 && fine.box[3] >= y1;
  return there ? fine.masks : null;
}

// Zoom so that what lies under a position of the stage stays there.
function zoomed(state, factor, { u, v }) {
  const { scale: old, left, top } = state.zoom;
  const low = wholeScale(state) * 0.9;
  const scale = clamp(old * factor, low, Math.max(low, MOST_SCALE));
  const part = scale / old;
  return { scale, left: u - (u - left) * part, top: v - (v - top) * part, fitted: false };
}

const sameImage = (a, b) => a && b && a.key === b.key && a.width === b.width && a.height === b.height;

function withMasks(known, objects, head, buffers) {
  const used = new Set([...objects, ...(head.answers || [])].map((one) => one.mask));
  const masks = new Map([...known].filter(([id]) => used.has(id)));
  for (const mask of masksOf(head.masks, buffers)) masks.set(mask.head.id, mask);
  return masks;
}

// What a message on objects says, which are these now.
const withObjects = (state, objects, { head, buffers }) => ({
  objects, objectless: false, current: head.object, since: head.since, n: head.n, canUndo: head.can_undo, canRedo: head.can_redo,
  undo: head.undo, redo: head.redo, readOnly: head.read_only, elsewhere: head.elsewhere, unsaved: head.unsaved,
  answers: head.answers || [], classNumber: head.class ?? 1, othersStay: head.others_stay ?? true,
  hover: head.object === state.current ? state.hover : null, // it was of the object before
  masks: withMasks(state.masks, objects, head, buffers),
});

const LETTERS = { tracked: "t", hand: "h", checked: "c" };

// The lanes after a message with all masks of a frame.
function withFrame(lanes, { frame, masks }) {
  const found = new Map([...lanes].map(([number, known]) => [number, new Map(known)]));
  for (const known of found.values()) known.delete(frame);
  for (const { object, how } of masks) {
    if (!found.has(object)) found.set(object, new Map());
    found.get(object).set(frame, LETTERS[how] || "p");
  }
  return found;
}

const REDUCERS = {
  // ---- messages
  image(state, { head }) {
    const same = sameImage(state.image, head);
    const next = {
      image: head, bitmap: same ? state.bitmap : null, tiles: same ? state.tiles : new Map(), hover: null, aimed: null, broken: null,
      objectless: true, frames: new Map(), sending: 0, link: "open",
      ...(same ? {} : { masks: new Map(), objects: [], current: null, answers: [], layer: null, hidden: new Set(), examples: [],
        example: null, chosen: new Set(), frame: head.kind === "video" ? (head.frame ?? 0) : 0, playing: false }),
    };
    const zoom = same ? state.zoom : { ...state.zoom, fitted: true };
    const now = { ...state, ...next, zoom };
    return { ...next, zoom: zoom.fitted ? fitted(now) : zoom };
  },
  state: (state, event) => withObjects(state, event.head.objects, event),
  // Objects that have changed, and numbers of those that are gone.
  edit(state, event) {
    const known = new Map(state.objects.map((one) => [one.id, one]));
    for (const number of event.head.gone) known.delete(number);
    for (const one of event.head.objects) known.set(one.id, one);
    return withObjects(state, [...known.values()].sort((a, b) => a.id - b.id), event);
  },
  about: (state, { head }) => ({ about: head }),
  checks: (state, { head }) => ({ checks: head.rows }),
  lanes: (state, { head }) => ({
    lanes: new Map(head.lanes.map(({ object, frames }) => [object, new Map(frames)])),
  }),
  project(state, { head }) {
    const items = head.whole ? [] : [...state.project.items];
    for (const item of head.items) items[item.index] = item;
    return { project: { classes: head.classes, items } };
  },
  // Masks of what is seen; parts of the image come as `tiled`.
  tiles: (state, { head, buffers }) => (head.tiles.length ? {} : {
    fine: { key: head.key, n: head.n, box: head.box, masks: masksOf(head.masks, buffers) },
  }),
  hover(state, { head, buffers }) {
    const stale = head.frame !== undefined && head.frame !== state.frame;
    return { hover: stale ? null : { head: head.mask, bits: buffers[0], seq: head.answer.seq } };
  },
  status: (state, { head }) => ({ status: { text: head.text, part: head.part, stops: !!head.stops } }),
  note: (state, { head }) => ({ note: { text: head.text, actions: [] }, sending: 0 }),
  error: (state, { head }) => ({
    error: head.text, sending: 0, link: state.link === "down" ? "open" : state.link, // not resumed
  }),
  pictured: (state, { head, address }) => ({ thumbs: new Map(state.thumbs).set(head.index, address) }),
  masks(state, { head, buffers }) {
    const kept = state.frames.get(head.frame);
    const lanes = withFrame(state.lanes, head);
    if (!kept) return { lanes };
    const masks = masksOf(head.masks, buffers);
    return { lanes, frames: new Map(state.frames).set(head.frame, { ...kept, masks }) };
  },
  progress: (state, { head }) =>
    ({ running: head.running, done: head.done, total: head.total }),
  welcome: (state, { head }) => ({
    link: state.image ? state.link : "open", // with an image: open when its session is there
    page: { models: head.models, maxBytes: head.max_bytes, projects: head.projects },
    about: state.about || head.about,
  }),
  projects: (state, { head }) => ({ page: { ...state.page, projects: head.projects } }),
  opened: () => ({ link: "open", thumbs: new Map(), sending: 0 }),

  // ---- what the browser has made of them
  decoded: (state, { head, bitmap }) => (state.image === head ? { bitmap } : {}),
  tiled: (state, { tiles }) => ({ tiles }),
  layered: (state, { layer }) => ({ layer, hover: null }),
  framed(state, { head, buffers, bitmap }) {
    const frames = new Map(state.frames);
    frames.delete(head.frame);
    frames.set(head.frame, { bitmap, masks: masksOf(head.masks, buffers) });
    while (frames.size > KEPT_FRAMES) frames.delete(frames.keys().next().value);
    return { frames };
  },

  // ---- the connection
  linked: (state, { link, reason = "" }) => ({ link, reason, hover: null }),
  ticked: (state, { slow, unheard }) => ({ slow, unheard }),
  heard: (state, { good }) => ({
    heard: true, link: state.link === "gone" ? "open" : state.link,
    error: good ? "" : state.error,
  }),

  // ---- this view
  chosen: (state, { values }) => values,
  left: () => ({ hover: null }),
  told: (state, { text, actions = [] }) => ({ note: text ? { text, actions } : null, error: "" }),
  failed: (state, { text }) => ({ error: text, sending: 0 }),
  hid(state, { number }) {
    const hidden = new Set(state.hidden);
    if (!hidden.delete(number)) hidden.add(number);
    return { hidden };
  },
  went: (state, { frame }) =>
    ({ frame: clamp(frame, 0, (state.image?.frames ?? 1) - 1), hover: null, aimed: null }),
  sized(state, { stage }) {
    const next = { ...state, stage };
    if (state.zoom.fitted) return { stage, zoom: fitted(next) };
    const { zoom, stage: { width, height } } = state; // what is in the middle stays there
    return { stage, zoom: { ...zoom, left: zoom.left + (stage.width - width) / 2, top: zoom.top + (stage.height - height) / 2 } };
  },
  fit: (state) => ({ zoom: fitted(state) }),
  zoomed: (state, { factor, at }) => ({ zoom: zoomed(state, factor, at) }),
  shifted: (state, { left, top }) => ({ zoom: { ...state.zoom, left, top, fitted: false } }),
};

export const reduce = (state, event) => ({ ...state, ...REDUCERS[event.type](state, event) });
export const isEvent = (type) => Object.hasOwn(REDUCERS, type);
