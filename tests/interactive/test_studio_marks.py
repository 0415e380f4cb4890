"""Label Studio: which image, which brush and which corners a mark means; fetching of images."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
from sam_rlx.apps.serve.fetch import FetchError, fetch, split
from sam_rlx.apps.serve.studio_marks import Marks, brush_of, read_marks
from sam_rlx.errors import InvalidArgumentError

TWO_IMAGES = """<View>
  <Image name="left" value="$left"/><Image name="right" value="$right"/>
  <RectangleLabels name="box" toName="left"><Label value="Cat"/></RectangleLabels>
  <RectangleLabels name="box2" toName="right"><Label value="Cat"/></RectangleLabels>
  <BrushLabels name="animals" toName="left"><Label value="Cat"/><Label value="Dog"/></BrushLabels>
  <BrushLabels name="plants" toName="right"><Label value="Tree"/></BrushLabels>
  <BrushLabels name="pets" toName="right"><Label value="Cat"/><Label value="x" alias="Dog"/>
  </BrushLabels>
</View>"""


def mark(**changes: Any) -> dict[str, Any]:
    value = {"x": 10.0, "y": 20.0, "width": 30.0, "height": 5.0, "rectanglelabels": ["Cat"]}
    found = {
        "type": "rectanglelabels",
        "original_width": 200,
        "original_height": 100,
        "from_name": "box2",
        "to_name": "right",
        "image_rotation": 0,
        "value": value,
    }
    for name, change in changes.items():
        (value if name in ("x", "y", "rotation", "rectanglelabels") else found)[name] = change
    return found


@pytest.mark.parametrize("angle", [0, 30, 90, 135, 200, 270, 359.5, -90, 720])
def test_a_turned_rectangle_is_the_box_of_its_corners(angle: float) -> None:
    (x, y), (wide, high) = (20.0, 20.0), (60.0, 5.0)  # in pixels
    turn = math.radians(angle)
    sides = wide * np.exp(1j * turn), high * 1j * np.exp(1j * turn)
    corners = [complex(x, y) + a * sides[0] + b * sides[1] for a in (0, 1) for b in (0, 1)]
    xs, ys = [one.real for one in corners], [one.imag for one in corners]
    found = read_marks([mark(rotation=angle)])
    assert found.box == pytest.approx((min(xs), min(ys), max(xs), max(ys)))
    assert found.size == (200, 100)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"image_rotation": 90}, "image_rotation 0"),
        ({"item_index": 1}, "item_index 0"),
        ({"type": "ellipselabels"}, "keypoint or a rectangle"),
        ({"type": ["rectangle"]}, "keypoint or a rectangle"),
        ({"rotation": "a"}, "rotation"),
        ({"to_name": "left"}, "found 2 images"),
        ({"to_name": 5}, "to_name"),
        ({"original_width": 300}, "found 2 sizes"),
        ({"rectanglelabels": "Cat"}, "list of labels"),
    ],
)
def test_what_is_not_understood_is_an_error(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        read_marks([mark(), mark(**changes)])


def _brush(config: str = TWO_IMAGES, **changes: Any) -> tuple[str, str, str]:
    found = brush_of(config, read_marks([mark(**changes)]))
    return found.from_name, found.to_name, found.value


def test_the_image_and_the_brush_are_those_of_the_mark() -> None:
    assert _brush() == ("pets", "right", "right")
    assert _brush(rectanglelabels=["Dog"]) == ("pets", "right", "right")
    assert _brush(rectanglelabels=["Tree"]) == ("plants", "right", "right")
    assert _brush(from_name="box", to_name="left") == ("animals", "left", "left")
    assert _brush(from_name=None) == ("pets", "right", "right")
    one = '<View><Image name="a" value="$b"/><BrushLabels name="c" toName="a"/></View>'
    assert _brush(one, from_name=None, to_name=None) == ("c", "a", "b")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rectanglelabels": ["Car"]}, "labels .'Car'.*found 0"),
        ({"rectanglelabels": []}, "found 2"),
        ({"from_name": "box"}, "toName 'right', found 'box'"),
        ({"from_name": "gone"}, "found 'gone'"),
        ({"to_name": "gone"}, "Image 'gone'"),
        ({"to_name": None}, "found none, and 2 images"),
    ],
)
def test_marks_of_another_image_or_tag_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        _brush(**changes)


@pytest.mark.parametrize("config", ["<View>\ud800</View>", "<View/>" * 2, "<a" * 50_000])
def test_odd_configurations_are_refused(config: str) -> None:
    marks = Marks((1, 1), [], [], None, (), None, ())
    with pytest.raises(InvalidArgumentError, match="label_config"):
        brush_of(config, marks)


# ------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://host/a b/ä.png?d=ü x#f", "http://host/a%20b/%C3%A4.png?d=%C3%BC%20x"),
        ("http://Host:81/a%20b", "http://host:81/a%20b"),
        (" http:\\\\host\\a\n.png ", "http://host/a.png"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("http://[::1]:5/a", "http://[::1]:5/a"),
    ],
)
def test_addresses_are_those_of_browsers(address: str, expected: str) -> None:
    parts = split(address)
    assert parts is not None
    assert parts.geturl() == expected


@pytest.mark.parametrize(
    "address", ["", "http://", "http://[::1", "http://a:b/", "http://u@h/", "ftp://h/", "\ud800"]
)
def test_what_is_no_address(address: str) -> None:
    assert split(address) is None


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Answer one connection after the other."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        while True:
            try:
                given, _ = listener.accept()
            except OSError:
                return
            with given, suppress(OSError):
                answer(given)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _fetch(address: str, value: str = "/a b.png", seconds: float = 20.0, most: int = 100) -> bytes:
    base = split(address)
    assert base is not None
    return fetch(base, value, {"Authorization": "Token x"}, most, seconds)


def test_a_file_is_fetched_with_its_redirects() -> None:
    requests: list[bytes] = []

    def answer(given: socket.socket) -> None:
        requests.append(given.recv(1 << 16))
        if len(requests) == 1:
            given.sendall(b"HTTP/1.1 302 Found\r\nLocation: /\xc3\xa4.png\r\n\r\n")
        else:
            given.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")

    with serving(answer) as address:
        assert _fetch(address) == b"abc"
    assert [line.split()[1] for line in requests] == [b"/a%20b.png", b"/%C3%A4.png"]
    assert all(b"Authorization: Token x" in line for line in requests)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2:1/\r\n\r\n", "http://127.0.0.2"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n", "found 'http://"),
        (b"HTTP/1.1 302 Found\r\nLocation: /a\r\n\r\n", "5 redirects"),
        (b"HTTP/1.1 302 Found\r\n\r\n", "5 redirects"),
        (b"HTTP/1.1 404 No\xff\r\n\r\n", "404"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "a part"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "expected"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * 101, "more than 100 bytes"),
        (b"garbage\r\n\r\n", "garbage"),
        (b"", "expected"),
    ],
)
def test_servers_that_misbehave(sent: bytes, words: str) -> None:
    sends = serving(lambda given: given.sendall(sent) if given.recv(1 << 16) else None)
    with sends as address, pytest.raises(FetchError, match=words):
        _fetch(address)


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_there_is_one_limit_of_time(start: bytes) -> None:
    """Headers or a body that come by drops."""

    def answer(given: socket.socket) -> None:
        given.sendall(start)
        for _ in range(2000):
            given.sendall(b"X: a\r\n")
            time.sleep(0.02)

    words = r"found nothing in 0\.2 s"
    with serving(answer) as address, pytest.raises(FetchError, match=words):
        _fetch(address, seconds=0.2, most=1 << 20)


def test_keys_and_values_that_no_header_takes() -> None:
    base = split("http://127.0.0.1:9")
    assert base is not None
    with pytest.raises(FetchError):
        fetch(base, "/a", {"Authorization": "Token \u20ac"}, 10, 1.0)
    with pytest.raises(FetchError, match=r"expected one of http://127\.0\.0\.1:9"):
        _fetch("http://127.0.0.1:9", "http://evil.example/a")
