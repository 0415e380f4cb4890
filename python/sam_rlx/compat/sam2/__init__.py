"""The interface of ``sam2`` 1.1 on NumPy: same module names, arguments, defaults and shapes.

Where upstream gives tensors, these classes give arrays with the methods ``cpu``, ``detach``,
``numpy`` and ``to``. The only device is ``"cpu"``. A config is found in the checkpoint: the config
file that upstream asks for is only compared with it.
"""

import importlib
import importlib.util

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.unoffered import add_unoffered

add_unoffered(__name__)
if importlib.util.find_spec("hydra") is not None:
    # As upstream: programs call hydra.compose with the names of configs.
    hydra = importlib.import_module("hydra")
    if (
        not importlib.import_module("hydra.core.global_hydra")
        .GlobalHydra.instance()
        .is_initialized()
    ):
        hydra.initialize_config_module(__name__, version_base="1.2")
__dir__ = public_names(__name__)
