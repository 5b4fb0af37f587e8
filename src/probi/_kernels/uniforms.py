"""Random numbers for other kernels, which draw none of their own."""

import numpy as np

from probi._kernels._compile import kernel


@kernel
def keyed_uniforms(key, numbers, firsts, offsets, out, start, stop):
    """Random numbers in [0, 1) for each draw of each of numbers[start:stop] under a key: SplitMix64 of all three.

    IN   numbers (n,) uint64, firsts (n,): first draw of each; offsets (n + 1,): where its draws begin
    OUT  out (offsets[stop] - offsets[start],)
    """
    for i in range(start, stop):
        number = key ^ (numbers[i] * np.uint64(0x9E3779B97F4A7C15))
        for j in range(offsets[i + 1] - offsets[i]):
            x = number + np.uint64(firsts[i] + j + 1) * np.uint64(0xD1342543DE82EF95)
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            x = x ^ (x >> np.uint64(31))
            out[offsets[i] - offsets[start] + j] = np.float64(x >> np.uint64(11)) * 2.0**-53
