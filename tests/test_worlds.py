"""Stability: what would change in other possible worlds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import blobs, numbered
from sklearn.metrics import adjusted_rand_score

import probi
from probi import InputError, Nodes, Summary, assign, memberships, solve, stability, worlds
from probi._parallel import limited
from probi.worlds import _Worlds, adjusted_rand_index


def made(nodes, k, seed=0, is_sample=False):
    return _Worlds(nodes, solve(nodes, k, random_state=0).centers, seed, is_sample)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=30))
def test_the_index_is_that_of_scikit_learn(pairs):
    ours, theirs = np.array(pairs).T
    overlap = np.zeros((4, 3))
    np.add.at(overlap, (ours, theirs), 1.0)
    assert_allclose(adjusted_rand_index(overlap, len(pairs)), adjusted_rand_score(ours, theirs), atol=1e-12)
    assert_allclose(adjusted_rand_index(7.0 * overlap, len(pairs)), adjusted_rand_index(overlap, len(pairs)))


@pytest.mark.parametrize("is_equal", [True, False])
def test_realizations_are_drawn_by_their_probabilities(is_equal):
    shares = np.array(
        [[0.2, 0.2, 0.2, 0.2], [0.1, 0.1, 0.1, 0.1]] if is_equal else [[0.0, 0.5, 0.1, 0.4], [0.3, 0.0, 0.2, 0.1]]
    )
    nodes = Nodes.from_dense(np.tile(np.arange(8.0).reshape(2, 4, 1), (100, 1, 1)), np.tile(shares, (100, 1)))
    possible = _Worlds(nodes, np.array([[0.0], [5.0]]), 3, False)
    assert possible._are_equal == is_equal
    counts = np.zeros(8)
    for i in range(40):
        world, of_node = possible.draw(i)
        assert_array_equal(world.points[:, 0] >= 4, of_node % 2)
        counts += np.bincount(world.points[:, 0].astype(int), minlength=8)
    expected = 4000 * shares.ravel()
    assert (abs(counts - expected) <= 5 * np.sqrt(expected)).all()


def test_worlds_of_a_sample_keep_masses_and_realizations_on_average():
    nodes = numbered(n=50).with_weights(np.r_[np.full(25, 1.0), np.full(25, 40.0)])
    possible = made(nodes, 2, is_sample=True)
    mass = np.zeros((200, 50))
    for i in range(200):
        world, of_node = possible.draw(i)
        mass[i] = np.bincount(of_node, world.mass, minlength=50)
    assert_allclose(mass[:, 25:].mean(axis=0), nodes.mass[25:], rtol=0.3)
    assert_allclose(mass.mean(axis=0).sum(), nodes.mass.sum(), rtol=0.05)
    # A node that stands for itself varies as one draw, one that stands for 40 as an independent sample and its draws.
    relative = mass[:, 25:].std(axis=0) / nodes.mass[25:]
    assert 0.85 < relative.mean() < 1.2


def test_apart_clusters_are_certain():
    X, origin = blobs(n=200, k=4)
    found = stability(X, 4, n_worlds=20, random_state=0)
    assert_array_equal(found.labels, assign(X, found.centers))
    assert (found.confidence == 1.0).all()
    assert_allclose(found.jaccard, 1.0)
    assert found.rand_index == pytest.approx(1.0)
    assert [outcome.probability for outcome in found.outcomes] == [1.0]
    assert found.n_worlds == 20
    assert len(np.unique(origin * 4 + found.labels)) == 4


@pytest.mark.slow
def test_confidence_is_the_membership_where_centers_stay():
    """Thousands of nodes hold the centers; some between them vary."""
    X, _ = blobs(n=1000, k=2, m=20, seed=1)
    low, high = (X[i::2].mean(axis=(0, 1)) for i in (0, 1))
    rng = np.random.default_rng(0)
    between = 0.5 * (low + high) + (high - low) * rng.normal(0.05, 0.3, (40, 20, 1))
    X = np.concatenate([X, between])
    centers = solve(X, 2, random_state=0).centers
    found = stability(X, 2, n_worlds=150, random_state=0, centers=centers)
    expected = memberships(X, centers)[np.arange(len(X)), found.labels]
    assert_allclose(found.confidence[-40:], expected[-40:], atol=0.2)
    assert abs(found.confidence[-40:] - expected[-40:]).mean() < 0.05


def test_worlds_match_their_clusters_by_shared_mass():
    possible = made(numbered(n=400), 4)
    for i in range(5):
        world, of_node = possible.draw(i)
        found = possible.solved(i)
        labels = assign(world, found.centers)
        assert_array_equal(labels == possible.labels[of_node], found.agrees[of_node] == 1.0)
        overlap = np.zeros((4, 4))
        np.add.at(overlap, (possible.labels[of_node], labels), world.mass)
        assert_allclose(found.overlap, overlap)
        assert np.trace(overlap) > 0.95 * overlap.sum()


def test_clusters_in_another_order_are_matched():
    possible = made(numbered(n=400), 4)
    before = [possible.solved(i) for i in range(3)]
    possible.starts = [start[[2, 0, 3, 1]] for start in possible.starts]
    for i, world in enumerate(before):
        found = possible.solved(i)
        assert_allclose(found.centers, world.centers)
        assert_array_equal(found.agrees, world.agrees)
        assert_allclose(found.overlap, world.overlap)


@pytest.mark.slow
def test_two_ways_to_divide_are_two_outcomes():
    """Four groups at the corners of a square, two clusters: which sides go together is a matter of chance."""
    rng = np.random.default_rng(4)
    corners = np.array([[0.0, 0.0], [0.0, 10.0], [10.0, 0.0], [10.0, 10.0]])
    X = corners[np.arange(80) % 4][:, None] + 1.5 * rng.normal(size=(80, 20, 2))
    X = np.concatenate([X, X[..., ::-1]])  # the same from both sides
    found = stability(X, 2, n_worlds=60, random_state=1)
    probabilities = [outcome.probability for outcome in found.outcomes]
    assert len(probabilities) == 2
    assert sum(probabilities) > 0.9
    assert min(probabilities) > 0.1
    assert found.rand_index < 0.9
    assert found.jaccard.max() < 0.95


def test_structureless_data_is_less_stable_than_clusters():
    rng = np.random.default_rng(0)
    noise = stability(rng.normal(size=(300, 10, 2)), 5, n_worlds=20, random_state=0)
    assert noise.rand_index < 0.3
    assert noise.confidence.mean() < 0.6


def test_the_same_seed_gives_the_same_bits_for_any_threads(monkeypatch):
    nodes = numbered(n=600, scale=2.0, spread=2.0)
    found = []
    for n_jobs, at_once in ((1, 16), (3, 5)):
        monkeypatch.setattr(worlds, "AT_ONCE", at_once)
        with limited(n_jobs):
            found.append(stability(nodes, 4, n_worlds=12, random_state=5))
    for name in ("centers", "labels", "confidence", "jaccard"):
        assert_array_equal(getattr(found[0], name), getattr(found[1], name))
    assert found[0].rand_index == found[1].rand_index
    other = stability(nodes, 4, n_worlds=12, random_state=6)
    assert (abs(other.confidence - found[0].confidence) > 0.1).any()


@pytest.mark.slow
def test_of_a_summary():
    X, _ = blobs(n=20_000, k=3, scale=3.0, spread=1.0)
    summary = Summary(3, random_state=0)
    summary.update(X)
    found = stability(summary, 3, n_worlds=20, random_state=0)
    assert len(found.labels) == len(summary.coreset())
    whole = stability(X[:4000], 3, n_worlds=20, random_state=0)
    assert abs(found.rand_index - whole.rand_index) < 0.1
    kept = Summary(3, random_state=0)
    kept.update(X[:100])  # all nodes are kept: worlds are those of the nodes
    assert_array_equal(
        stability(kept, 3, n_worlds=5, random_state=0, centers=found.centers).confidence,
        stability(kept.coreset(), 3, n_worlds=5, random_state=0, centers=found.centers).confidence,
    )


def test_absent_nodes_few_nodes_and_weights():
    nodes = Nodes([[0.0], [1.0], [9.0], [9.5]], [0.5, 0.5, 0.02, 1.0], [0, 2, 3, 4], weights=[1, 2, 0])
    found = stability(nodes, 2, n_worlds=30, random_state=0)
    assert found.confidence[0] == 1.0
    assert np.isnan(found.confidence[2])  # weight 0
    one = stability(nodes[:1], 1, n_worlds=3, random_state=0)
    assert one.confidence.tolist() == [1.0]
    assert repr(one) == "Stability(1 cluster in 3 worlds: Jaccard 1 to 1, adjusted Rand index 1, 1 typical outcome)"
    heavy = stability(nodes.with_weights([1e9, 1, 1]), 2, n_worlds=10, random_state=0)
    assert np.isfinite(heavy.jaccard).all()


@pytest.mark.parametrize("shift", [0.0, 1e9])
def test_hostile_nodes(shift):
    rng = np.random.default_rng(0)
    X = rng.standard_cauchy(size=(200, 4, 3)) + shift
    found = stability(np.concatenate([X, X[:50], X[:50]]), 6, n_worlds=8, random_state=0)
    assert ((found.confidence >= 0.0) & (found.confidence <= 1.0)).all()
    assert 0.0 <= found.rand_index <= 1.0
    assert found.outcomes == () or found.outcomes[0].centers.shape == (6, 3)


def test_errors():
    X = np.zeros((5, 2))
    with pytest.raises(InputError, match="n_worlds"):
        stability(X, 2, n_worlds=0)
    with pytest.raises(InputError, match="3 centers, but n_clusters is 2"):
        stability(X, 2, centers=np.zeros((3, 2)))
    assert probi.Stability is type(stability(X, 1, n_worlds=1, random_state=0))
