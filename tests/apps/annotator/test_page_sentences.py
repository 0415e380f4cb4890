"""Every sentence of the front end is reached, in real Chromium, by what a session may say."""

from __future__ import annotations

from typing import Any

from sam_rlx.apps.annotator.exports import FORMS
from sam_rlx.apps.annotator.front import joined
from sam_rlx.apps.annotator.gestures import table_of
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.keys import keys_of
from sam_rlx.apps.annotator.video_session import VideoSession

# The table of sentences, which notes what is read of it. The page has no server: a socket that
# takes everything, and messages as a session sends them.
WATCHED = """
const WORDS = new Proxy(SENTENCES, { get(table, name) {
  (globalThis.reached ||= new Set()).add(name);
  return table[name];
} });
globalThis.SENTENCES = SENTENCES;
"""
BEGIN = """async ([text, about]) => {
  globalThis.WebSocket = class {
    static OPEN = 1;
    readyState = 1;
    send() {}
  };
  globalThis.confirm = () => false;
  globalThis.fetch = async () => ({ ok: false, status: 404 });
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const { default: front } = await import(url);
  const listeners = {};
  const model = {
    get() {}, set() {}, save_changes() {}, off() {}, send() {},
    on(event, callback) { listeners[event] = callback; },
  };
  const cell = document.body.appendChild(document.createElement("div"));
  front.render({ model, el: cell });
  globalThis.widget = cell.querySelector(".srx").front;
  globalThis.lose = () => listeners["comm:close"]();
  const el = document.body.appendChild(document.createElement("div"));
  front.page({ base: "http://127.0.0.1/", el });
  globalThis.page = el.querySelector(".srx").front;
  globalThis.about = about;
}"""
# States in the order in which a person may meet them.
STORY = """async () => {
  const put = (values, front = page) => {
    front.state = { ...front.state, ...values };
    front.flush();
  };
  const press = (selector) => { page.root.querySelector(selector).click(); page.flush(); };
  const bitmap = await createImageBitmap(new ImageData(8, 8));
  // a notebook: no answer so far, keys, the end of the kernel
  widget.flush();
  widget.wire.begunAt -= 20000;
  widget.tick();
  widget.flush();
  widget.hear({ type: "about", ...about, kept: "memory" }, [], null);
  widget.act("help");
  lose();
  widget.flush();
  widget.act("help");
  widget.escape();
  // a page: no connection, projects, files that do not come or are too large
  put({ link: "down" });
  page.hear({ type: "welcome", models: ["a", "b"], max_bytes: 10, about: { ...about, kept: "" },
    projects: [{ id: "0123456789abcdef", images: 2, done: 1, changed: 5 }] }, [], null);
  page.flush();
  press(".srx-known button");
  await page.host.example();
  await page.host.load([new File(["1"], "a.json")]);
  await page.host.open([new File(["12345678901"], "a.png")]);
  put({ sending: 2 });
  // an image, with objects, classes, answers
  const one = (id, more) => ({ id, name: `object ${id}`, color: [200, 0, 0], class: 1, note: "",
    locked: false, points: [[2, 2, 1], [4, 4, 0]], point_numbers: [1, 2], boxes: [],
    box_numbers: [], candidate: 0, candidates: 3, score: 0.5, text: "", gone: [], mask: id,
    ...more });
  const image = { type: "image", kind: "image", index: 0, count: 2, key: "k", name: "a.png",
    width: 8, height: 8, preview: [8, 8], grid: [8, 8], step: 1, level: 0, texts: true };
  const row = (number, name, digit) => ({ number, name, color: [0, 0, 200], digit });
  const item = (index, state, more) => ({ index, key: `k${index}`, name: `${index}.png`,
    kind: "image", state, reason: "", objects: 1, ...more });
  put({ sending: 0, error: "", image, bitmap, about: { ...about, kept: "folder" }, project: {
    classes: [row(1, "object", "1"), row(2, "ball", "2")],
    items: [item(0, "begun"), item(1, "unreadable", { reason: "it ends" }), item(2, "done")] } });
  page.coarse = true;
  page.flush();
  put({ objects: [one(1), one(2)], current: 1 });
  put({ current: null, objects: [] });
  press(".srx-classes button");
  page.act("merge");
  page.flush();
  page.act("next");
  page.act("next_check");
  page.successor.ask(1);
  page.escape();
  page.flush();
  for (const tool of ["brush", "eraser", "lasso", "split", "hand"]) put({ tool });
  put({ tool: "click", layer: { labels: new Uint16Array(64), size: [8, 8], count: 2 } });
  put({ layer: null, example: 1 });
  put({ example: null, broken: 1 });
  put({ broken: null, slow: true });
  put({ slow: false, checks: [{ object: 1, frame: 0, reason: "area", text: "grown" }] });
  // sentences over the image
  page.on_note({ text: "a", about: "changed" });
  page.on_note({ text: "a", about: "text", best: 0.31, threshold: 0.5 });
  page.on_loaded({ objects: 2, absent: ["b.png"], passed_over: 1 });
  put({ note: null, unsaved: "the disk is full" });
  put({ unsaved: "", readOnly: "it is open elsewhere", elsewhere: "http://127.0.0.1/" });
  put({ readOnly: "", link: "down" });
  put({ link: "ended", reason: "too many tabs" });
  const done = [item(0, "done"), item(1, "done")];
  put({ link: "open", project: { ...page.state.project, items: done } });
  put({ project: { ...page.state.project, items: [item(0, "left out"), item(1, "done")] } });
  // menus and dialogs
  page.entitle([{ name: "import_as" }, { name: "leave_out" }]);
  page.menu.toggle(page.top.project);
  page.menu.close();
  put({ project: { ...page.state.project, items: done } });
  page.menu.toggle(page.top.project);
  page.menu.close();
  page.importing.ask();
  page.importing.file = { name: "a.json", contents: new ArrayBuffer(2) };
  page.importing.send(false);
  const brought = { form: "coco", objects: 2, matched: { key: 1, frame: 1 }, absent: ["b.png"],
    absent_count: 6, classes: [{ name: "ball", objects: 2, new: true }] };
  page.on_import({ ...brought, added: false });
  page.on_import({ ...brought, added: true });
  page.flush();
  put({ examples: [{ box: [1, 1, 4, 4], label: 1 }] });
  page.search.toggle(page.top.find);
  page.search.close();
  page.export.ask();
  page.escape();
  put({ project: { ...page.state.project, items: [item(0, "new", { objects: 0 })] } });
  page.export.ask();
  page.escape();
  // a clip
  const frames = new Map([[0, { bitmap, masks: [] }]]);
  put({ image: { ...image, kind: "video", frames: 3 }, frames });
  put({ objects: [one(1)], running: true, done: 1, total: 3 });
  page.search.toggle(page.top.find);
  page.search.close();
  return Object.keys(SENTENCES).filter((name) => !reached.has(name));
}"""


def test_sentences_are_each_reached(chrome: Any) -> None:
    """No sentence stands in the table that nobody ever sees."""
    text = joined().replace("const WORDS = {", "const SENTENCES = {", 1)
    at = text.index("const classes = ")  # of the module after the table's
    text = text[:at] + WATCHED + text[at:]
    forms = [
        {"name": name, "title": form.title, "loses": form.loses} for name, form in FORMS.items()
    ]
    keys = keys_of({**table_of(ImageSession), **table_of(VideoSession)})
    about = {
        "name": "a",
        "kept": "state",
        "where": "/a",
        "model": "m",
        "keys": keys,
        "forms": forms,
    }
    context = chrome.new_context(viewport={"width": 1300, "height": 1200})
    page = context.new_page()
    empty = {"body": "<!doctype html><html><body></body></html>", "content_type": "text/html"}
    page.route("http://127.0.0.1/", lambda route: route.fulfill(**empty))
    page.goto("http://127.0.0.1/")
    page.evaluate(BEGIN, [text, about])
    left = page.evaluate(STORY)
    context.close()
    assert left == []
