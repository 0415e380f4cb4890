"""Widening of 16-bit numbers is exact for all 65536 of them."""

import numpy as np


def test_half_to_float_is_bit_exact(testing):
    bits = np.arange(1 << 16, dtype=np.uint16)
    ours = testing.half_to_float(bits)
    expected = bits.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(ours.view(np.uint32), expected.view(np.uint32))
