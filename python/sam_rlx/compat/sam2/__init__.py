"""The interface of ``sam2`` 1.1 on NumPy: same module names, arguments, defaults and shapes.

Where upstream gives tensors, these classes give arrays with the methods ``cpu``, ``detach``,
``numpy`` and ``to``. The only device is ``"cpu"``. A config is found in the checkpoint: the config
file that upstream asks for is only compared with it.
"""

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.unoffered import add_unoffered

add_unoffered(__name__)
__dir__ = public_names(__name__)
