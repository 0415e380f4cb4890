"""Record what Meta's model of SAM 3.1 gives in float64 for a text on clips, with random weights.

Run as ``python make_sam3_1_texts.py META``; META is a checkout of Meta's repository sam3 with the
modules of SAM 3.1 (its version of 27 March 2026 or later), which is on no package index. Needs the
reference packages; the model runs on a CPU.
"""

import argparse
import logging
import sys
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Record all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("meta", type=Path, help="checkout of Meta's repository sam3")
    sys.path[:0] = [str(parser.parse_args().meta), str(HERE.parent)]
    # Meta's builder asks it for a path that nothing here reads.
    sys.modules.setdefault("pkg_resources", types.ModuleType("pkg_resources"))
    from support import sam3_1_texts, upstream_sam3_1_masklets

    logging.disable(logging.WARNING)
    recorded = {}
    for name, case in sam3_1_texts.CASES.items():
        model = upstream_sam3_1_masklets.video_model(
            upstream_sam3_1_masklets.weights(case.seed), **case.given
        )
        script = upstream_sam3_1_masklets.play(case.steps)
        results = upstream_sam3_1_masklets.run64(model, case.clip(), script)
        recorded[name] = sam3_1_texts.shown(results)
        print(name, [frame.obj_ids for frame in recorded[name]])
    sam3_1_texts.write(recorded)


if __name__ == "__main__":
    main()
