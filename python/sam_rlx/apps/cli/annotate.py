"""``sam-rlx annotate``: label a folder, an image or a clip in a browser, where it lies."""

import argparse

from sam_rlx.apps.cli import common, serve

_EXAMPLES = """examples:
  sam-rlx annotate photos/
  sam-rlx annotate clip.mp4 --model sam2-nano
  sam-rlx annotate frames/ --clip
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the sub-command."""
    parser = commands.add_parser(
        "annotate",
        help="label a folder of images, an image or a clip in a browser",
        description="Open the project of a folder of images, of an image or of a clip in a "
        "browser: it prints the address. The work is kept beside the files, and goes on where it "
        "was the next time. Ctrl-C ends it.",
        epilog=_EXAMPLES,
        formatter_class=common.HelpFormatter,
    )
    parser.add_argument("path", metavar="PATH", help="folder of images, image, or clip")
    serve.add_page_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    args.images = [args.path]
    serve.run(args)
