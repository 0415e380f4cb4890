"""The front end in pages of other hosts: their rules, and hosts that carry no messages or late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sam_rlx.apps.annotator.front import joined

# What Bootstrap 5 says of rows, and rules for other names that the front end once had.
BOOTSTRAP = """
.row{margin:0 -12px} .row>*{flex-shrink:0;width:100%;max-width:100%}
.badge,.chip,.list,.stage,.error,.hint,.sep,.meter,.on{display:none!important}
"""
MAKE = """async (text) => {
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const { default: front } = await import(url);
  const sent = (globalThis.sent = []);
  const listeners = {};
  const model = {
    get() {}, set() {}, save_changes() {}, off() {},
    on(event, callback) { listeners[event] = callback; },
    send(head) { sent.push(head); },
  };
  front.render({ model, el: document.body });
  globalThis.front = document.querySelector(".srx").front;
  globalThis.hear = (head) => listeners["msg:custom"](head, []);
}"""


@pytest.fixture
def page(chrome: Any) -> Iterator[Any]:
    context = chrome.new_context(viewport={"width": 900, "height": 700})
    found = context.new_page()
    found.set_content("<!doctype html><html><body></body></html>")
    found.evaluate(MAKE, joined())
    yield found
    context.close()


def test_rules_of_the_host_change_nothing(page: Any) -> None:
    # In one step: what is said while an answer is waited for changes with time.
    before, after = page.evaluate(
        """(rules) => {
          const boxes = () => [...document.querySelectorAll(".srx *")]
            .map((element) => element.getBoundingClientRect())
            .map(({ x, y, width, height }) => [x, y, width, height]);
          const before = boxes();
          const style = document.head.appendChild(document.createElement("style"));
          style.textContent = rules;
          return [before, boxes()];
        }""",
        BOOTSTRAP,
    )
    assert len(before) > 30
    assert after == before
    names = page.evaluate(
        "[...document.querySelectorAll('.srx [class]')].map((e) => e.getAttribute('class'))"
    )
    assert all(part.startswith("srx-") for name in names for part in name.split())


def test_a_host_that_carries_no_messages_is_told(page: Any) -> None:
    badge = page.locator(".srx-badge")
    assert badge.inner_text() == "Waiting for the kernel"
    page.evaluate("front.wire.begunAt -= 20000; front.tick(); front.flush()")
    assert "this host does not carry the widget's messages" in badge.inner_text()
    page.evaluate(
        "hear({ type: 'status', text: 'Reading', part: null }); front.tick(); front.flush()"
    )
    assert badge.inner_text() == "Reading"  # late, but it does


def test_a_host_that_holds_answers_back_gets_messages_ever_more_seldom(page: Any) -> None:
    """Shiny sends what a thread says when a message of the page comes."""
    page.evaluate(
        "hear({ type: 'image', kind: 'video', width: 4, height: 4, frames: 1, preview: [4, 4] });"
        "sent.length = 0"
    )
    count = page.evaluate("""() => {
      front.send("commit");
      let time = performance.now();
      const real = performance.now;
      performance.now = () => time;
      for (let ticks = 0; ticks < 4 * 600; ticks++) { time += 250; front.tick(); }
      performance.now = real;
      return sent.length;
    }""")
    kinds = page.evaluate("sent.slice(1).map((head) => [head.type, head.again])")
    assert all(kind == ["ready", True] for kind in kinds)
    assert 8 < count < 60  # in ten minutes


def test_a_late_answer_leaves_nothing_waiting(page: Any) -> None:
    """A view that asks again, and is answered once, is not busy for ever."""
    asked, waiting = page.evaluate(
        """() => {
          front.wire.readyAt -= 5000;
          front.tick();
          const asked = sent.map((head) => head.type + (head.again ? " again" : ""));
          hear({ type: "image", kind: "video", width: 4, height: 4, frames: 1, preview: [4, 4],
            answer: { view: sent[0].view, seq: sent[0].seq } });
          return [asked, [...front.wire.waiting.values()].map(({ type }) => type)];
        }"""
    )
    assert asked == ["ready", "ready again"]
    assert waiting == ["frame"]
