"""The page behind real servers: nginx and caddy of Debian, jupyter-server-proxy of the index."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TOKEN = "0123456789abcdef-token"
NGINX = """
daemon off; pid {folder}/pid; error_log stderr error;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{
    listen 127.0.0.1:{front};
    location {path} {{
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection upgrade;
      {more}
      proxy_pass http://127.0.0.1:{port}/;
    }}
  }}
}}
"""
CADDY = """
{{
  admin off
  auto_https off
}}
http://lab.example:{front} {{
  bind 127.0.0.1
  {handle} {path}* {{
    reverse_proxy 127.0.0.1:{port}
  }}
}}
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def program(name: str) -> str:
    """Return a server's program; `SAM_RLX_SERVERS` may name a folder of unpacked packages."""
    root = Path(os.environ.get("SAM_RLX_SERVERS", "/"))
    found = shutil.which(name, path=f"{root}/usr/sbin:{root}/usr/bin:{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"needs {name}: apt-get install {name}")
    return found


@contextmanager
def running(command: list[str], port: int, **env: str) -> Iterator[None]:
    process = subprocess.Popen(command, env={**os.environ, **env})
    try:
        end = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        assert process.poll() is None, command
        yield
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def serving(port: int, public: str) -> Iterator[None]:
    options = ["--port", str(port), "--token", TOKEN, "--threads", "1", "--public-url", public]
    with running([sys.executable, "-m", "sam_rlx", "serve", *options], port):
        yield


def check_page(address: str) -> None:
    """Open the page under a name that leads here, click on the example, and export."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs chromium")
    arguments = ["--no-sandbox", "--host-resolver-rules=MAP lab.example 127.0.0.1"]
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page()
        failed: list[str] = []
        page.on("requestfailed", lambda request: failed.append(request.url))
        page.goto(f"{address}?token={TOKEN}")
        page.locator(".srx-example").click(timeout=60_000)
        canvas = page.locator("canvas.srx-view")
        page.wait_for_function("document.querySelector('.srx').front.peek()?.drawn", timeout=60_000)
        box: Any = canvas.bounding_box()
        canvas.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
        page.locator(".srx-object").wait_for(timeout=120_000)
        assert failed == []
        browser.close()


@pytest.mark.parametrize("path", ["/", "/deep/sam/"])
@pytest.mark.parametrize("more", ["", "proxy_set_header Host $host;"], ids=["itself", "host"])
def test_nginx(tmp_path: Path, path: str, more: str) -> None:
    """As it is by itself, with the upstream's name, and with the browser's name without a port."""
    command, front, port = program("nginx"), free_port(), free_port()
    config = tmp_path / "nginx.conf"
    given = {"folder": tmp_path, "front": front, "path": path, "port": port, "more": more}
    config.write_text(NGINX.format(**given))
    address = f"http://lab.example:{front}{path}"
    with serving(port, address), running([command, "-c", str(config), "-p", str(tmp_path)], front):
        check_page(address)


@pytest.mark.parametrize(
    ("path", "handle"), [("/", "handle"), ("/sam/", "handle_path"), ("/sam/", "handle")]
)
def test_caddy(tmp_path: Path, path: str, handle: str) -> None:
    """With the path taken off, and without."""
    command, front, port = program("caddy"), free_port(), free_port()
    config = tmp_path / "Caddyfile"
    config.write_text(CADDY.format(front=front, path=path, port=port, handle=handle))
    address = f"http://lab.example:{front}{path}"
    words = [command, "run", "--adapter", "caddyfile", "--config", str(config)]
    with serving(port, address), running(words, front, HOME=str(tmp_path)):
        check_page(address)


def test_jupyter_server_proxy(tmp_path: Path) -> None:
    if importlib.util.find_spec("jupyter_server_proxy") is None:
        pytest.skip("needs jupyter-server-proxy")
    front, port = free_port(), free_port()
    address = f"http://lab.example:{front}/base/proxy/{port}/"
    words = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root"]
    words += [f"--port={front}", "--ServerApp.ip=127.0.0.1", "--ServerApp.base_url=/base/"]
    words += ["--IdentityProvider.token=", "--ServerApp.allow_remote_access=True"]
    words += ["--ServerApp.jpserver_extensions={'jupyter_server_proxy':True}"]
    words += [f"--ServerApp.root_dir={tmp_path}", "--ServerApp.disable_check_xsrf=True"]
    home = {"HOME": str(tmp_path), "JUPYTER_CONFIG_DIR": str(tmp_path)}
    with serving(port, address), running(words, front, **home):
        with urllib.request.urlopen(f"http://127.0.0.1:{front}/base/proxy/{port}/health") as answer:
            assert answer.status == 200
        check_page(address)
