"""Which of ARM's tables a processor gets, by the two words that Linux tells of it."""

import pytest
from support.ops import _testing

pytestmark = pytest.mark.source_tree

TABLES = ["neon_bf16", "neon_i8mm", "neon_dotprod", "neon"]
DOT, I8MM, BF16 = 1 << 20, 1 << 13, 1 << 14
# Of HWCAP2: the same names for SVE, which are other features.
SVE_I8MM, SVE_BF16 = 1 << 9, 1 << 12
EVERYTHING = (1 << 64) - 1

# Words of processors as their emulators tell them, and words that no processor has.
CASES = {
    "cortex-a53": (0x8FB, 0, 1),
    "a64fx, SVE alone": (0x415FFB, 0, 1),
    "neoverse-n1": (0x119FFB, 0, 2),
    "neoverse-v1": (0xCFFFFFFB, 0x17201, 4),
    "all without SVE": (0xECBFFFFB, 0x76181, 4),
    "I8MM without BF16": (DOT, I8MM, 3),
    "BF16 without I8MM": (DOT, BF16, 2),
    "I8MM and BF16 without DotProd": (EVERYTHING ^ DOT, I8MM | BF16, 1),
    "those of SVE": (DOT, SVE_I8MM | SVE_BF16, 2),
    "the second word in the first": (DOT | I8MM | BF16, 0, 2),
    "the first word in the second": (0, DOT | I8MM | BF16, 1),
    "nothing": (0, 0, 1),
    "everything": (EVERYTHING, EVERYTHING, 4),
}


@pytest.mark.parametrize("case", CASES)
def test_tables_of_a_processor(case):
    hwcap, hwcap2, count = CASES[case]
    assert _testing.arm_isas(hwcap, hwcap2) == TABLES[-count:]
