"""16-bit numbers: widening is exact for all 65536 of them, narrowing rounds to nearest even."""

import numpy as np

BITS = np.arange(1 << 16, dtype=np.uint16)


def bfloat16(bits):
    """The upper halves of float32."""
    return (np.asarray(bits, np.uint32) << 16).view(np.float32)


def neighbours(values):
    """Float32 `values`, the midpoints between them, and the float32 on both sides of all these.

    `values` are all numbers of a 16-bit format, so that the midpoints are its ties.
    """
    finite = np.unique(values[np.isfinite(values)].astype(np.float64))
    ties = (finite[1:] + finite[:-1]) / 2
    middle = np.concatenate([finite, ties]).astype(np.float32)
    around = np.concatenate(
        [np.nextafter(middle, np.float32(to)) for to in (-np.inf, np.inf)] + [middle]
    )
    return around[np.isfinite(around)]


def every_exponent():
    """All signs and exponents of float32, infinity among them, with 200 mantissas each."""
    rng = np.random.default_rng(0)
    mantissas = np.concatenate(
        [[0, 1, 0x7FFFFF, 0x400000, 0x3FFFFF], rng.integers(0, 1 << 23, 195)]
    ).astype(np.uint32)
    upper = np.arange(1 << 9, dtype=np.uint32) << 23
    values = (upper[:, None] | mantissas).reshape(-1).view(np.float32)
    return values[~np.isnan(values)]


def nans():
    """NaN of both signs, quiet and signaling, with payloads in the upper and the lower half."""
    payloads = np.array([1, 2, 0x1FFF, 0x2000, 0xFFFF, 0x10000, 0x400000, 0x7FFFFF], np.uint32)
    bits = np.concatenate([0x7F800000 | payloads, np.uint32(0xFF800000) | payloads])
    return bits.astype(np.uint32).view(np.float32)


def nearest_bfloat16(values):
    """Bits of the nearest bfloat16 in float64 arithmetic; of two the one with an even last bit."""
    bits = values.view(np.uint32)
    lower = (bits >> 16).astype(np.uint16)  # towards zero
    magnitude = np.abs(values.astype(np.float64))

    def number(code):  # the code of infinity stands for the first number too large, 2**128
        exponent, mantissa = (code >> 7 & 0xFF).astype(np.int64), (code & 0x7F).astype(np.float64)
        normal = np.ldexp(1 + mantissa / 128, exponent - 127)
        return np.where(exponent == 0, np.ldexp(mantissa / 128, -126), normal)

    down, up = magnitude - number(lower), number(lower + np.uint16(1)) - magnitude
    odd = (lower & 1).astype(bool)
    rounded = lower + ((up < down) | ((up == down) & odd)).astype(np.uint16)
    return np.where(np.isinf(values), lower, rounded)


def test_half_to_float_is_bit_exact(testing):
    ours = testing.half_to_float(BITS)
    expected = BITS.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(ours.view(np.uint32), expected.view(np.uint32))


def test_bfloat16_to_float_is_bit_exact(testing):
    ours = testing.bfloat16_to_float(BITS)
    np.testing.assert_array_equal(ours.view(np.uint32), BITS.astype(np.uint32) << 16)


def test_numbers_of_16_bits_come_back(testing):
    for widen, narrow in (
        (testing.half_to_float, testing.float_to_half),
        (testing.bfloat16_to_float, testing.float_to_bfloat16),
    ):
        values = widen(BITS)
        numbers = ~np.isnan(values)
        np.testing.assert_array_equal(narrow(values)[numbers], BITS[numbers])
        assert np.isnan(widen(narrow(values))[~numbers]).all()


def test_float_to_half_is_numpys(testing):
    values = np.concatenate([neighbours(testing.half_to_float(BITS)), every_exponent()])
    with np.errstate(over="ignore", under="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(testing.float_to_half(values), expected)
    # The last number that is not rounded to infinity, the first that is, and the same around zero.
    edges = np.array([65519.996, 65520, 2**-25, np.nextafter(np.float32(2**-25), 1)], np.float32)
    assert testing.float_to_half(edges).tolist() == [0x7BFF, 0x7C00, 0x0000, 0x0001]
    assert testing.float_to_half(-edges).tolist() == [0xFBFF, 0xFC00, 0x8000, 0x8001]


def test_float_to_bfloat16_is_the_nearest(testing):
    values = np.concatenate([neighbours(bfloat16(BITS)), every_exponent()])
    found = testing.float_to_bfloat16(values)
    np.testing.assert_array_equal(found, nearest_bfloat16(values))
    # Halves between 1 and its neighbours, the largest float, and half of the smallest bfloat16.
    ties = np.array([1 + 2**-8, 1 + 3 * 2**-8, 3.4028235e38, 2**-134], np.float32)
    assert testing.float_to_bfloat16(ties).tolist() == [0x3F80, 0x3F82, 0x7F80, 0x0000]


def test_nan_stays_nan(testing):
    for widen, narrow in (
        (testing.half_to_float, testing.float_to_half),
        (testing.bfloat16_to_float, testing.float_to_bfloat16),
    ):
        values = nans()
        found = narrow(values)
        assert np.isnan(widen(found)).all()
        np.testing.assert_array_equal(found >> 15, values.view(np.uint32) >> 31)
