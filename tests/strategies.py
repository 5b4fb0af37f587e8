"""Hypothesis strategies: nodes as plain lists, and the same as ``probi.Nodes``."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import probi

# Examples of a property in make test, where nothing else is said (see conftest.py).
USUAL = 20


def examples(n):
    """Settings for ``n`` examples in make test; profiles with more or fewer get as many times more or fewer."""
    return settings(max_examples=max(1, n * settings().max_examples // USUAL))


# Small integers make ties, equal points and lines likely; decimals make rounding likely.
coordinates = st.one_of(
    st.integers(-4, 4).map(float), st.floats(-100.0, 100.0, allow_subnormal=False).map(lambda x: round(x, 3))
)


@st.composite
def points(draw, dimension):
    return tuple(draw(coordinates) for _ in range(dimension))


@st.composite
def node(draw, dimension, most=6):
    """One node: a list of (point, probability) with a positive sum of at most 1."""
    places = draw(st.lists(points(dimension), min_size=1, max_size=most))
    shares = draw(st.lists(st.integers(0, 5), min_size=len(places), max_size=len(places)))
    if not any(shares):
        shares[0] = 1
    present = draw(st.sampled_from([1.0, 1.0, 0.5, 0.9]))
    return [(x, present * s / sum(shares)) for x, s in zip(places, shares, strict=True)]


@st.composite
def nodes(draw, min_size=1, max_size=6, dimension=None, most=6):
    """A list of nodes of one dimension."""
    d = draw(st.integers(1, 4)) if dimension is None else dimension
    return draw(st.lists(node(d, most), min_size=min_size, max_size=max_size))


@st.composite
def nodes_and_centers(draw, max_centers=12):
    """Nodes, and 1 to ``max_centers`` centers in the same space."""
    some = draw(nodes())
    d = len(some[0][0][0])
    return some, draw(st.lists(points(d), min_size=1, max_size=max_centers))


@st.composite
def weighted_nodes_and_centers(draw):
    some, centers = draw(nodes_and_centers())
    weights = draw(st.lists(st.integers(0, 4).map(float), min_size=len(some), max_size=len(some)))
    return some, weights, centers


def build(some, weights=None, dtype=np.float64):
    """Make ``probi.Nodes`` of a list of nodes."""
    flat = [pair for one in some for pair in one]
    offsets = np.cumsum([0] + [len(one) for one in some])
    return probi.Nodes(
        np.array([x for x, _ in flat], dtype=dtype), np.array([p for _, p in flat], dtype=dtype), offsets, weights
    )
