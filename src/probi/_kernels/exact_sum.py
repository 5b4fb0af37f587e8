"""Sums without any rounding, of numbers of all magnitudes."""

import numpy as np

from probi._kernels._compile import kernel

# Bits of a digit. Of 64 bits the others leave room for a billion additions before a digit overflows.
DIGIT_BITS = 32

# Digits of the largest number, as a multiple of the smallest one above 0, with two more behind its first.
N_DIGITS = (2046 >> 5) + 3


@kernel
def exact_digits(bits, start, stop):
    """Sum of numbers start:stop, as a large integer: a multiple of 2^-1074, the smallest number above 0.

    IN   bits (n,) uint64: those of float64 numbers; none is below 0, infinite or NaN
    RETURN (N_DIGITS,) uint64: digits with the base 2^32, the lowest first; not reduced, so they may exceed the base
    """
    digits = np.zeros(N_DIGITS, np.uint64)
    low_half = np.uint64(0xFFFFFFFF)
    for i in range(start, stop):
        mantissa, exponent = bits[i] & np.uint64(0xFFFFFFFFFFFFF), (bits[i] >> np.uint64(52)) & np.uint64(0x7FF)
        if exponent > 0:
            mantissa |= np.uint64(1 << 52)
            exponent -= np.uint64(1)
        at, shift = exponent >> np.uint64(5), exponent & np.uint64(31)
        # In halves: 53 bits that are moved by up to 31 do not fit into 64.
        low, high = (mantissa & low_half) << shift, (mantissa >> np.uint64(32)) << shift
        digits[at] += low & low_half
        digits[at + np.uint64(1)] += (low >> np.uint64(32)) + (high & low_half)
        digits[at + np.uint64(2)] += high >> np.uint64(32)
    return digits
