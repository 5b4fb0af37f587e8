"""Memberships: the share of a node's realizations that are nearest to each center."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import blobs
from strategies import build, nodes_and_centers

from probi import InputError, Nodes, PLloyd, assign, memberships, objective
from probi._parallel import limited
from probi.objective import label_memberships, two_nearest


@pytest.fixture(params=["all distances", "bounds"])
def way(request, monkeypatch):
    """Both ways to find nearest centers: small problems compare all."""
    if request.param == "bounds":
        monkeypatch.setattr(objective, "MAX_SMALL", 0)


def hard(n=400, m=6, d=3, k=9, seed=0, dtype=np.float64, shift=0.0):
    """Nodes of all spreads, some absent at times, some realizations with probability 0; and centers among them."""
    rng = np.random.default_rng(seed)
    spreads = 10.0 ** rng.uniform(-3, 1, (n, 1, 1))
    X = rng.normal(size=(n, 1, d)) + spreads * rng.standard_t(2, size=(n, m, d)) + shift
    shares = rng.integers(0, 4, (n, m)) + (np.arange(m) == 0)
    probabilities = shares / shares.sum(axis=1, keepdims=True) * rng.choice([0.3, 1.0], (n, 1))
    return Nodes.from_dense(X.astype(dtype), probabilities.astype(dtype)), rng.normal(size=(k, d)) + shift


def naive_of(nodes, centers, tol=0.0):
    plain = [
        [
            (tuple(x), p)
            for x, p in zip(one.points.astype(float).tolist(), one.probabilities.astype(float).tolist(), strict=True)
        ]
        for one in nodes
    ]
    return naive.memberships(plain, [tuple(c) for c in np.asarray(centers).tolist()], tol)


@pytest.mark.usefixtures("way")
@given(nodes_and_centers(), st.booleans())
def test_matches_the_definition(data, scaled):
    some, centers = data
    if scaled:  # whole numbers: ties are exact, and go to the first center
        some = [[(tuple(map(round, x)), p) for x, p in node] for node in some]
        centers = [tuple(map(round, c)) for c in centers]
    found = memberships(build(some), centers)
    least, most = naive.memberships(some, centers, 0.0 if scaled else 1e-9)
    assert (found >= np.array(least) - 1e-12).all()
    if scaled:
        assert_allclose(found, least, atol=1e-12)
    else:
        assert (found <= np.array(most) + 1e-12).all()
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("dtype", "shift", "d", "k"),
    [(np.float64, 0.0, 3, 9), (np.float32, 0.0, 3, 40), (np.float64, 1e9, 2, 5), (np.float64, 0.0, 768, 12)],
)
def test_hostile_nodes_match_the_definition(dtype, shift, d, k):
    nodes, centers = hard(n=60 if d > 9 else 300, d=d, k=k, dtype=dtype, shift=shift)
    centers = np.concatenate([centers, centers[:2]])  # equal centers: the first counts
    found = memberships(nodes, centers)
    least, most = naive_of(nodes, centers[:k], 1e-7 if shift else 1e-12)
    assert (found[:, :k] >= np.array(least) - 1e-6).all()
    assert (found[:, :k] <= np.array(most) + 1e-6).all()
    assert not found[:, k:].any()


def test_both_ways_have_the_same_bits(monkeypatch):
    for seed in range(3):
        nodes, centers = hard(seed=seed)
        all_compared = memberships(nodes, centers)
        with monkeypatch.context() as patch:
            patch.setattr(objective, "MAX_SMALL", 0)
            assert_array_equal(memberships(nodes, centers), all_compared)


@pytest.mark.parametrize("k", [2, 4, 20])  # few centers that may be nearest to a realization, and many
def test_rounding_does_not_decide_between_equal_distances(k, monkeypatch):
    rng = np.random.default_rng(k)
    nodes = Nodes.from_dense(0.1 * rng.integers(0, 4, (200, 6, 3)))
    centers = 0.1 * rng.integers(0, 4, (k, 3))
    all_compared = memberships(nodes, centers)
    monkeypatch.setattr(objective, "MAX_SMALL", 0)
    assert_array_equal(memberships(nodes, centers), all_compared)


@pytest.mark.usefixtures("way")
def test_any_threads_and_any_batches_give_the_same_bits(monkeypatch):
    nodes, centers = hard(n=5000)
    whole = memberships(nodes, centers)
    monkeypatch.setattr("probi._parallel.GRAIN", 1000)
    with limited(3):
        assert_array_equal(memberships(nodes, centers), whole)
    with limited(1):
        assert_array_equal(
            np.concatenate([memberships(nodes[a : a + 777], centers) for a in range(0, 5000, 777)]), whole
        )


@pytest.mark.slow
def test_bounds_save_most_distances(monkeypatch):
    """Nodes in the middle of their clusters need none, others only those of centers around."""
    X, _ = blobs(n=1000, k=10)
    nodes = Nodes.from_dense(X)
    counts = []
    kernel = objective.membership_kernels.memberships
    monkeypatch.setattr(objective.membership_kernels, "memberships", lambda *a: counts.append(kernel(*a)))
    memberships(nodes, np.stack([X[i::10].mean(axis=(0, 1)) for i in range(10)]))
    assert sum(counts) == 0
    centers = X[:30, 0]
    found = memberships(nodes, centers)
    assert_allclose(found, naive_of(nodes, centers)[0], atol=1e-12)
    assert 0 < sum(counts) < 0.3 * nodes.n_realizations * len(centers)


@pytest.mark.slow
def test_equal_to_drawn_worlds():
    """1,000 random instances, each a node and some centers: within the sampling error of 10,000 draws."""
    rng = np.random.default_rng(7)
    surprises = []
    for _ in range(1000):
        m, k, d = rng.integers(1, 9), rng.integers(2, 6), rng.integers(1, 4)
        X, centers = rng.normal(size=(m, d)), rng.normal(size=(k, d))
        p = rng.dirichlet(np.ones(m)) * rng.uniform(0.2, 1.0)
        found = memberships(Nodes(X, p, [0, m]), centers)[0]
        nearest = np.linalg.norm(X[:, None] - centers, axis=2).argmin(axis=1)
        drawn = np.bincount(nearest, rng.multinomial(10_000, p / p.sum()), minlength=k) / 10_000
        error = np.sqrt(np.maximum(found * (1 - found), 1e-300) / 10_000)
        assert_array_equal(drawn[found == 0.0], 0.0)
        surprises += [((drawn - found) / error)[(found > 0.01) & (found < 0.99)]]
    z = np.concatenate(surprises)
    assert len(z) > 1000
    assert abs(z).max() < 5.0
    assert 0.9 < (z**2).mean() < 1.1


@pytest.mark.usefixtures("way")
def test_ties_go_to_the_first_center():
    nodes = Nodes([[1.0], [3.0]], [0.25, 0.75], [0, 2])  # its center of gravity is nearest to the second center
    assert_array_equal(memberships(nodes, [[0.0], [2.0], [2.0]]), [[0.25, 0.75, 0.0]])


def test_absent_mass_is_shared_out():
    nodes = Nodes([[0.0], [2.0]], [0.3, 0.1], [0, 2])
    assert_allclose(memberships(nodes, [[0.0], [3.0]]), [[0.75, 0.25]], rtol=1e-15)


def test_a_node_nearest_to_one_center_has_exactly_one():
    shares = np.full((100, 7), 1 / 7)
    nodes = Nodes.from_dense(np.random.default_rng(0).normal(size=(100, 7, 2)), shares)
    assert_array_equal(memberships(nodes, [[50.0, 0.0], [0.0, 0.0]]), np.tile([0.0, 1.0], (100, 1)))


def test_sparse_keeps_what_is_above_a_threshold(monkeypatch):
    monkeypatch.setattr(objective, "MEMBERSHIPS_AT_ONCE", 100)
    nodes, centers = hard()
    dense = memberships(nodes, centers)
    assert_array_equal(memberships(nodes, centers, sparse=True).toarray(), dense)
    few = memberships(nodes, centers, sparse=True, threshold=0.2)
    assert_array_equal(few.toarray(), np.where(dense > 0.2, dense, 0.0))
    assert few.nnz == (dense > 0.2).sum()
    assert memberships(nodes[:0], centers, sparse=True).shape == (0, 9)
    assert memberships(nodes[:0], centers).shape == (0, 9)
    with pytest.raises(InputError, match=r"below 1, got 1.5"):
        memberships(nodes, centers, sparse=True, threshold=1.5)
    with pytest.raises(InputError, match="sparse=True"):
        memberships(nodes, centers, threshold=0.1)
    with pytest.raises(InputError, match="2 features"):
        memberships(nodes, np.zeros((3, 2)))


def test_memberships_of_labels(monkeypatch):
    monkeypatch.setattr(objective, "MEMBERSHIPS_AT_ONCE", 100)
    nodes, centers = hard()
    nearest, dense = two_nearest(nodes, centers), memberships(nodes, centers)
    found = label_memberships(nodes, centers, nearest)
    for i, (own, row) in enumerate(zip(nearest.labels, dense, strict=True)):
        assert found.probabilities[i] == row[own]
        others = [(-p, c) for c, p in enumerate(row) if c != own]
        p, c = min(others)
        assert (found.second_probabilities[i], found.second[i]) == ((-p, c) if p < 0 else (0.0, nearest.next_labels[i]))
    single = label_memberships(nodes, centers[:1], two_nearest(nodes, centers[:1]))
    assert (single.probabilities == 1.0).all()
    assert (single.second == -1).all()


def test_margins():
    nodes = Nodes.from_points([[0.0], [1.0], [2.0], [1.5]])
    assert_allclose(two_nearest(nodes, [[0.0], [2.0]]).margins, [1.0, 0.0, 1.0, 2 / 3])
    assert_array_equal(two_nearest(nodes[:1], [[0.0], [0.0]]).margins, [0.0])  # both at distance 0: a tie
    assert math.isclose(two_nearest(nodes, [[0.0]]).margins[1], 1.0)


def test_a_label_need_not_be_the_most_probable():
    nodes = Nodes([[0.9], [4.0]], [0.6, 0.4], [0, 2])
    centers = [[0.0], [2.0]]
    assert assign(nodes, centers).tolist() == [1]
    assert memberships(nodes, centers).argmax(axis=1).tolist() == [0]


def test_estimators_predict_memberships():
    X, _ = blobs(n=100)
    model = PLloyd(4, random_state=0).fit(X)
    assert_array_equal(model.predict_proba(X), memberships(X, model.cluster_centers_))
    assert_array_equal(PLloyd(4, random_state=0, n_jobs=1).fit(X).predict_proba(X), model.predict_proba(X))


@pytest.mark.slow
@pytest.mark.parametrize(("d", "sigma"), [(1, 1.0), (2, 1.5)])
def test_calibrated_if_realizations_are_draws_of_the_true_place(d, sigma):
    """Of labels with a membership of 0.7 to 0.8, that share has its true place nearest to the center of the label."""
    rng = np.random.default_rng(1)
    n, m = 20_000, 100
    groups = 3.0 * np.arange(3)[:, None] * np.ones(d) / math.sqrt(d)
    true = groups[rng.integers(3, size=n)] + rng.normal(size=(n, d))
    seen = true + sigma * rng.normal(size=(n, d))
    # Draws of the true place given what was seen: of a group, and then around the mean of group and measurement.
    scores = -((seen[:, None] - groups) ** 2).sum(axis=2) / (2 * (1 + sigma**2))
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
    group = (rng.random((n, m, 1)) > shares[:, None, :-1]).sum(axis=2)
    means = (seen[:, None] + sigma**2 * groups[group]) / (1 + sigma**2)
    nodes = Nodes.from_dense(means + sigma / math.sqrt(1 + sigma**2) * rng.normal(size=(n, m, d)))
    labels = assign(nodes, groups)
    membership = memberships(nodes, groups)[np.arange(n), labels]
    right = assign(true, groups) == labels
    tenth = np.minimum((10 * membership).astype(int), 9)
    tenths = [tenth == i for i in range(10) if (tenth == i).sum() >= 1000]
    assert len(tenths) >= 3
    for chosen in tenths:
        error = 3 * math.sqrt(0.25 / chosen.sum())
        assert abs(membership[chosen].mean() - right[chosen].mean()) < 0.02 + error / 2
