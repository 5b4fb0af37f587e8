"""How many clusters: overlap and silhouette by their definitions, and the recommended number on generated data."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import build, weighted_nodes_and_centers

import probi
from probi import _parallel, choosing
from probi.objective import two_nearest


def groups(rng, n_per_group, d=2, gap=8.0, tails=None, scales=1.0):
    """Points around centers that are at least a gap apart, and their number."""
    k, centers, width = len(n_per_group), np.empty((0, d)), gap
    while len(centers) < k:
        center = rng.uniform(-width, width, d)
        if (np.linalg.norm(centers - center, axis=1) >= gap).all():
            centers = np.vstack([centers, center])
        width *= 1.02
    noise = rng.normal(size=(sum(n_per_group), d))
    if tails:
        noise /= np.sqrt(rng.chisquare(tails, (len(noise), 1)) / tails)
    labels = np.repeat(np.arange(k), n_per_group)
    return centers[labels] + noise * np.broadcast_to(scales, k)[labels, None], k


def measured_several_times(rng, points, m=5, noise=1.5):
    return points[:, None] + noise * rng.normal(size=(len(points), m, points.shape[1]))


# -- definitions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_overlap_matches_the_definition(seed):
    rng = np.random.default_rng(seed)
    d, k = 1 + seed, 2 + seed
    points, weights = rng.normal(size=(60, d)) * 3, rng.integers(1, 4, 60).astype(float)
    centers = rng.normal(size=(k, d)) * 3
    nodes = probi.Nodes.from_points(points, weights)
    nearest = two_nearest(nodes, centers)
    expected = naive.overlap(points.tolist(), weights.tolist(), nearest.labels.tolist(), centers.tolist())
    assert_allclose(choosing.overlap(nodes, centers, nearest), expected, rtol=1e-9)


def test_overlaps_of_many_pairs_are_computed_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    nodes, centers = probi.Nodes.from_points(rng.normal(size=(60, 3))), rng.normal(size=(9, 3))
    clusters = choosing._Clusters.of(nodes, centers, two_nearest(nodes, centers))
    pairs = choosing.neighbors(clusters.squared_gaps)
    together = clusters.overlaps(pairs)
    monkeypatch.setattr(choosing, "AT_ONCE", 4 * 60)
    assert_array_equal(clusters.overlaps(pairs), together)
    assert len(pairs) > 5


@given(weighted_nodes_and_centers())
def test_silhouette_matches_the_definition(data):
    some, weights, centers = data
    nodes = build(some, [w + 1.0 for w in weights])
    value = choosing.silhouette(nodes, two_nearest(nodes, centers))
    if len(centers) == 1:
        assert math.isnan(value)
    else:
        assert_allclose(value, naive.silhouette(some, [w + 1.0 for w in weights], centers), rtol=1e-9, atol=1e-12)


def test_neighbors_have_no_center_between_them():
    centers = np.array([[0.0, 0.0], [4.0, 0.0], [8.0, 0.0], [4.0, 3.0]])
    assert choosing.neighbors(choosing.squared_gaps(centers)).tolist() == [[0, 1], [1, 2], [1, 3]]


@given(st.integers(0, 10**6), st.floats(-1e6, 1e6), st.integers(-30, 30))
def test_overlap_does_not_depend_on_place_unit_weight_or_order(seed, place, power):
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(40, 2)).round(3), rng.integers(1, 4, 40).astype(float)
    centers = points[:3]
    nodes = probi.Nodes.from_points(points, weights)
    value = choosing.overlap(nodes, centers, two_nearest(nodes, centers))
    order, unit = rng.permutation(40), 2.0**power
    changed = probi.Nodes.from_points((points[order] + place) * unit, weights[order] * 7)
    moved = (centers + place) * unit
    # Few nodes are near the edge of a window, where rounding decides.
    assert abs(choosing.overlap(changed, moved, two_nearest(changed, moved)) - value) <= 0.1


def test_few_nodes_support_nothing():
    for n in (1, 2, 4):
        points = np.r_[np.zeros(n), np.full(n, 100.0)][:, None] + np.arange(2 * n)[:, None] * 1e-3
        assert probi.choose_k(points, [2], random_state=0).recommended is None
    points = np.r_[np.zeros(30), np.full(30, 100.0)][:, None] + np.arange(60)[:, None] * 1e-3
    assert probi.choose_k(points, range(2, 5), random_state=0).recommended == 2


def test_a_node_with_all_weight_supports_nothing():
    rng = np.random.default_rng(0)
    points, _ = groups(rng, [100, 100])
    weights = np.r_[1e9, np.ones(199)]
    assert probi.choose_k(probi.Nodes.from_points(points, weights), range(2, 4), random_state=0).recommended is None


# -- recommended numbers ----------------------------------------------------------------------------------------------


def choose(*arguments, **options):
    """Without worlds, which have no say in the number and take most of the time."""
    return probi.choose_k(*arguments, n_worlds=0, random_state=0, **options)


CLUSTERED = {
    "clear": lambda rng: groups(rng, [200] * 3),
    "overlapping": lambda rng: groups(rng, [400] * 4, gap=4.0),
    "two, overlapping, five features": lambda rng: groups(rng, [500] * 2, d=5, gap=4.0),
    "unbalanced": lambda rng: groups(rng, [800, 300, 120, 60]),
    "heavy tails": lambda rng: groups(rng, [250] * 6, gap=9.0, tails=3),
    "different scales": lambda rng: groups(rng, [200] * 7, d=3, scales=np.linspace(0.2, 1.0, 7)),
    "twelve": lambda rng: groups(rng, [150] * 12, gap=6.0),
    "fifty features": lambda rng: groups(rng, [100] * 5, d=50),
}
STRUCTURELESS = {
    "uniform": lambda rng: rng.uniform(size=(1500, 2)),
    "Gaussian": lambda rng: rng.normal(size=(1500, 2)),
    "elongated": lambda rng: rng.normal(size=(1000, 3)) * [9.0, 2.0, 1.0],
    "skewed": lambda rng: rng.exponential(size=(1000, 2)),
    "fifty features, few nodes": lambda rng: rng.normal(size=(300, 50)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLUSTERED)
def test_the_true_number_is_recommended(name):
    rng = np.random.default_rng(3)
    points, k = CLUSTERED[name](rng)
    choice = choose(points, range(2, k + 3), n_init=2)
    assert choice.recommended == k
    assert choice.reason.startswith(f"{k} is the largest number of clusters that are all separated")
    assert choice.chosen is choice.results[k - 2]


@pytest.mark.slow
@pytest.mark.parametrize("name", STRUCTURELESS)
def test_data_without_structure_has_no_number(name):
    points = STRUCTURELESS[name](np.random.default_rng(4))
    choice = choose(points, range(1, 7), n_init=2)
    assert choice.recommended is None
    assert choice.chosen is None
    assert choice.reason.startswith("No clear number: ")
    assert np.nanmin(choice.overlap) > 0.6  # far from 0.5


@pytest.mark.slow
def test_uncertain_nodes_and_their_summary():
    rng = np.random.default_rng(5)
    points, k = groups(rng, [700] * 5, d=3, gap=6.0)
    nodes = probi.Nodes.from_dense(measured_several_times(rng, points))
    summary = probi.Summary(8, size=400, random_state=0)
    summary.update(nodes)
    for source in (nodes, summary):
        choice = choose(source, range(3, 8), n_init=2)
        assert choice.recommended == k
    assert (choice.standard_error > 0).all()
    uniform = probi.Nodes.from_dense(measured_several_times(rng, rng.uniform(size=(1000, 2)) * 4, noise=0.5))
    summary = probi.Summary(8, size=400, random_state=0)
    summary.update(uniform)
    for source in (uniform, summary):
        assert choose(source, range(2, 7), n_init=2).recommended is None


@pytest.mark.slow
def test_a_number_at_the_end_of_the_range_says_so():
    points, _ = groups(np.random.default_rng(0), [100] * 5)
    assert choose(points, range(2, 6)).reason.endswith("there may be more.")
    assert "there may be more" not in choose(points, range(2, 8)).reason


def test_equal_nodes():
    points = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 50, axis=0)
    choice = probi.choose_k(points, range(1, 7), random_state=0)
    assert choice.recommended == 3
    assert probi.choose_k(np.zeros((50, 2)), range(1, 4), random_state=0).recommended is None


@pytest.mark.parametrize("d", [2, 100])  # many features: solved in the space that the nodes span
def test_results_are_those_of_solve(d):
    points, _ = groups(np.random.default_rng(0), [8] * 3, d)
    choice = probi.choose_k(points, [4, 2, 3, 3], random_state=1)
    assert_array_equal(choice.n_clusters, [2, 3, 4])
    for k, result in zip(choice.n_clusters, choice.results, strict=True):
        assert_allclose(result.cost, probi.solve(points, int(k), random_state=1).cost, rtol=1e-3)
    assert_array_equal(choice.cost, [result.cost for result in choice.results])


@pytest.mark.slow
def test_the_same_bits_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(choosing, "MAX_NODES", 500)
    points, _ = groups(np.random.default_rng(0), [300] * 3)

    def run(n_threads):
        with _parallel.limited(n_threads):
            return probi.choose_k(points, range(2, 6), random_state=0)

    one, two = run(1), run(2)
    assert one.recommended == two.recommended == 3
    for name in ("overlap", "silhouette", "stability", "cost"):
        assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("numbers", [3, "3", [], [0, 2], [2.5]])
def test_numbers_that_cannot_be_tried(numbers):
    with pytest.raises(probi.InputError, match="n_clusters"):
        probi.choose_k(np.zeros((9, 2)), numbers)


@pytest.mark.slow
def test_stability_is_that_of_the_solutions():
    rng = np.random.default_rng(0)
    nodes = probi.Nodes.from_dense(measured_several_times(rng, groups(rng, [60] * 3)[0], noise=1.0))
    choice = probi.choose_k(nodes, [1, 3, 4], n_worlds=8, random_state=2)
    assert math.isnan(choice.stability[0])
    for k, value, result in zip((3, 4), choice.stability[1:], choice.results[1:], strict=True):
        assert value == probi.stability(nodes, k, 8, 2, centers=result.centers).rand_index
    assert choice.stability[1] > choice.stability[2]
    without = probi.choose_k(nodes, [1, 3, 4], n_worlds=0, random_state=2)
    assert np.isnan(without.stability).all()
    assert (without.recommended, without.reason) == (choice.recommended, choice.reason)
    with pytest.raises(probi.InputError, match="n_worlds is -1"):
        probi.choose_k(nodes, [3], n_worlds=-1)


def test_in_notebooks():
    choice = probi.choose_k(groups(np.random.default_rng(0), [50] * 3)[0], range(2, 5), random_state=0)
    assert choice._repr_html_().count("<tr>") == 4
    assert repr(choice).startswith("KChoice(2 to 4 clusters: 3 is the largest")
