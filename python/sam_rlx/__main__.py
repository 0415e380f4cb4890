"""``python -m sam_rlx`` is the command ``sam-rlx``."""

import sys

from sam_rlx.apps.cli import main

if __name__ == "__main__":
    sys.exit(main())
