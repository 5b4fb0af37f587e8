"""Random generators and seeds."""

from typing import Any

import numpy as np

from probi.errors import InputError


def generator(random_state: Any) -> np.random.Generator:
    """Return a Generator for None, an int, a SeedSequence, a Generator or a RandomState (which is advanced)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    if random_state is None or isinstance(random_state, (int, np.integer, np.random.SeedSequence)):
        try:
            return np.random.default_rng(random_state)
        except ValueError:
            raise InputError(f"random_state is {random_state}, but a seed must not be negative.") from None
    raise InputError(f"random_state must be None, an int, a Generator or a RandomState, not {random_state!r}.")


def seed_of(random_state: Any) -> int:
    """Return a seed that can be saved, for :func:`keyed`.

    An int is its own seed; anything else gives 128 random bits.
    """
    rng = generator(random_state)
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return sum(int(word) << (32 * i) for i, word in enumerate(rng.integers(2**32, size=4)))


def keyed(seed: int, *key: int) -> np.random.Generator:
    """Return the generator of a key, independent of those of all other keys and of earlier draws."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
