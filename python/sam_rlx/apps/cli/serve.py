"""``sam-rlx serve``: a page for segmenting in a browser, and annotation tools' protocols."""

import argparse
import re
import secrets
from pathlib import Path

from sam_rlx._internal.packages import optional
from sam_rlx._internal.progress import terminal_clock
from sam_rlx.apps.cli import common
from sam_rlx.model import Model, load_model

_EXAMPLES = """\
examples:
  sam-rlx serve
  sam-rlx serve --model sam2-nano --model sam3-nano --port 8090
  sam-rlx serve photos/ clip.mp4
  sam-rlx serve --public-url https://lab.example/sam/
  sam-rlx serve --model sam_vit_b_01ec64.pth --label-studio http://localhost:8080
"""
_HOST, _PORT = "127.0.0.1", 8765
_MEBI = 1 << 20


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the sub-command."""
    parser = commands.add_parser(
        "serve",
        help="segment in a browser, or from an annotation tool",
        description="Serve a page where images are segmented by clicks, boxes and texts, and the "
        "protocols of osam, X-AnyLabeling and Label Studio. Images stay on this machine. The "
        "address has a token without which nothing is answered; Ctrl-C ends the server.",
        epilog=_EXAMPLES,
        formatter_class=common.HelpFormatter,
    )
    parser.add_argument(
        "images",
        nargs="*",
        metavar="PATH",
        help="folders of images, images or clips: the page shows them where they lie, and the work "
        "is kept beside them",
    )
    add_page_arguments(parser)
    parser.add_argument(
        "--host",
        default=_HOST,
        metavar="ADDRESS",
        help=f"address to listen on (default: {_HOST}, this machine alone; 0.0.0.0 is all)",
    )
    parser.add_argument(
        "--public-url",
        metavar="URL",
        help="address of the server in front, such as https://lab.example/sam/: its name and pages "
        "are accepted, and it is printed",
    )
    parser.add_argument(
        "--label-studio",
        metavar="URL",
        help="be the backend of this Label Studio server; images are fetched from it only",
    )
    parser.set_defaults(run=run)


def add_page_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what each server of a page has: models, port, token, memory."""
    parser.add_argument(
        "--model",
        action="append",
        metavar="MODEL",
        help="checkpoint file, hub id, or a packaged model (default: sam-nano); several may be "
        "served, and the first is the default of those who name none",
    )
    common.add_load_arguments(parser)
    parser.add_argument(
        "--clip",
        action="store_true",
        help="folders of numbered images are clips, one each",
    )
    parser.set_defaults(host=_HOST, public_url=None, label_studio=None)
    parser.add_argument(
        "--port",
        type=_port,
        default=_PORT,
        metavar="N",
        help=f"port to listen on (default: {_PORT}; 0 takes a free one)",
    )
    parser.add_argument(
        "--token",
        type=_token,
        metavar="TEXT",
        help="instead of a random one: at least 16 letters, digits, - or _",
    )
    parser.add_argument(
        "--cache",
        type=common.positive,
        default=1024,
        metavar="MB",
        help="memory for encoded images (default: 1024)",
    )


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value < 65536:
        raise argparse.ArgumentTypeError(f"expected 0 to 65535, found {text}")
    return value


def _token(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{16,200}", text):
        raise argparse.ArgumentTypeError("expected at least 16 letters, digits, - or _")
    return text


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    optional("serve", "starlette", "starlette")
    optional("serve", "uvicorn", "uvicorn")
    optional("serve", "websockets", "websockets")
    from sam_rlx.apps.annotator.projects import state_folder
    from sam_rlx.apps.annotator.servers import announced
    from sam_rlx.apps.serve import app, engine, guard, label_studio, local_files, server, stopping

    if args.label_studio is not None:
        label_studio.check_address(args.label_studio)
    if args.public_url is not None:
        label_studio.check_address(args.public_url, "--public-url")
    shown = [local_files.local_files_of(Path(path), args.clip) for path in args.images]
    listener = server.listen(args.host, args.port)
    with listener:
        models = _load(args)
        token = args.token or secrets.token_urlsafe(24)
        engine_ = engine.Engine(models, args.threads, args.cache * _MEBI)
        hosts = guard.allowed_hosts(args.host)
        stop = stopping.Stop()
        application = app.create_app(
            engine_, token, hosts, args.label_studio, stop, args.public_url, shown
        )
        port = listener.getsockname()[1]
        base = (args.public_url or f"http://{_shown_host(args.host)}:{port}").rstrip("/")

        def ready() -> None:
            for local in shown:
                common.tell(f"{local.path.name}: {base}/{token}/p/{local.identity}")
            common.tell(f"page:   {base}/?token={token}")
            if args.label_studio is not None:
                common.tell(f"Label Studio's backend URL: {base}/{token}")
            common.tell("Ctrl-C ends the server")

        try:
            with announced(state_folder(), port, f"{base}/{token}"):
                server.run(application, listener, ready, stop)
        except KeyboardInterrupt as stop:
            if type(stop) is not KeyboardInterrupt:  # another signal
                raise
            common.tell("ended")


def _load(args: argparse.Namespace) -> dict[str, Model]:
    """Return the models by the names that clients use."""
    models: dict[str, Model] = {}
    if args.lora is not None and len(args.model or ()) > 1:
        raise common.UsageError(f"--lora: expected one --model, found {len(args.model)}")
    for source in args.model or ["sam-nano"]:
        with terminal_clock("loading"):
            model = load_model(source, **common.load_options(args))
        common.tell(common.describe(model))
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", str(source).rstrip("/").rpartition("/")[2])
        if name in models:
            raise common.UsageError(f"--model: expected different names, found {name} twice")
        models[name] = model
    return models


def _shown_host(host: str) -> str:
    """Return how a browser on this machine calls an address."""
    if host in ("0.0.0.0", "::", ""):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
