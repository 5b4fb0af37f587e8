"""PLloyd and PROBI as scikit-learn estimators."""

import pickle
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import probi
from probi import PROBI, Nodes, PLloyd
from probi.solver.solve import solve_quietly

# What scikit-learn states of its own KMeans, and no more: weights and repeated rows are drawn in another order.
EXPECTED_FAILURES = {"check_sample_weight_equivalence_on_dense_data": "sample_weight is not equivalent to repeating"}


@pytest.fixture(scope="module")
def blobs():
    """Thirty nodes of four realizations around three places, (30, 4, 2)."""
    rng = np.random.default_rng(3)
    places = np.repeat([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]], [12, 10, 8], axis=0)
    return places[:, None] + rng.normal(scale=0.5, size=(30, 4, 2))


@pytest.fixture(params=[PLloyd, PROBI])
def Model(request):  # noqa: N802
    return request.param


@pytest.mark.slow
def test_scikit_learns_checks_pass(Model):
    from sklearn.utils.estimator_checks import check_estimator  # takes a second, also where slow tests are left out

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(Model(), expected_failed_checks=EXPECTED_FAILURES, on_skip=None, on_fail="raise")
    count = Counter(result["status"] for result in results)
    assert count["failed"] == 0
    assert count["passed"] >= 50  # a suite that runs on nothing passes too


def test_three_d_input_is_nodes_with_equal_probabilities(Model, blobs):
    dense = Model(3, random_state=0).fit(blobs)
    nodes = Model(3, random_state=0).fit(Nodes.from_dense(blobs))
    assert dense.cluster_centers_.tobytes() == nodes.cluster_centers_.tobytes()
    assert Counter(dense.labels_.tolist()) == {0: 12, 1: 10, 2: 8}


def test_attributes_agree_with_the_functions(Model, blobs):
    nodes = Nodes.from_dense(blobs)
    model = Model(3, random_state=0).fit(nodes)
    assert model.cost_ == probi.expected_cost(nodes, model.cluster_centers_)
    assert model.score(nodes) == -model.cost_
    assert model.lower_bound_ <= model.cost_
    assert model.n_features_in_ == 2
    np.testing.assert_array_equal(model.predict(nodes), model.labels_)
    np.testing.assert_array_equal(model.transform(nodes), probi.expected_distances(nodes, model.cluster_centers_))
    np.testing.assert_array_equal(clone(model).fit_predict(nodes), model.labels_)


def test_transform_keeps_float32(Model, blobs):
    model = Model(3, random_state=0).fit(blobs.astype(np.float32))
    assert model.transform(blobs.astype(np.float32)).dtype == np.float32


def test_sample_weight_multiplies_the_weights_of_nodes(Model, blobs):
    weights = np.arange(1.0, 31.0)
    once = Model(3, random_state=0).fit(Nodes.from_dense(blobs, weights=weights**2))
    twice = Model(3, random_state=0).fit(Nodes.from_dense(blobs, weights=weights), sample_weight=weights)
    assert once.cluster_centers_.tobytes() == twice.cluster_centers_.tobytes()
    assert twice.score(Nodes.from_dense(blobs), sample_weight=weights**2) == -twice.cost_


@pytest.mark.parametrize("weights", [[1.0, 2.0], np.ones((30, 1)), -np.ones(30), np.full(30, np.nan)])
def test_bad_sample_weights_are_refused(Model, blobs, weights):
    with pytest.raises(ValueError, match="weight"):
        Model(3).fit(blobs, sample_weight=weights)


def test_set_output_and_names_of_features(Model, blobs):
    frame = Model(3, random_state=0).set_output(transform="pandas").fit(blobs).transform(blobs)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == [f"{Model.__name__.lower()}{i}" for i in range(3)]


def test_pipeline_clone_and_pickle(Model, blobs):
    points = blobs[:, 0]
    pipe = make_pipeline(StandardScaler(), Model(3, random_state=0)).fit(points)
    again = clone(pipe).fit(points)
    np.testing.assert_array_equal(pipe.predict(points), again.predict(points))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(pipe)).predict(points), pipe.predict(points))


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda X: X[:, 0], Nodes.from_dense], ids=["points", "nodes"])
def test_grid_search_over_n_clusters(Model, blobs, make):
    order = np.random.default_rng(0).permutation(len(blobs))
    search = GridSearchCV(Model(random_state=0, n_init=2), {"n_clusters": [1, 2, 3]}, cv=3).fit(make(blobs[order]))
    assert search.best_params_ == {"n_clusters": 3}


def test_a_data_frame_gives_names_and_other_names_are_refused(Model, blobs):
    frame = pd.DataFrame(blobs[:, 0], columns=["a", "b"])
    model = Model(3, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"b": "c"}))
    model.fit(Nodes.from_points(frame))
    assert not hasattr(model, "feature_names_in_")


def test_other_numbers_of_features_are_refused(Model, blobs):
    model = Model(3, random_state=0).fit(blobs)
    for other in (blobs[:, :, :1], Nodes.from_dense(blobs[:, :, :1]), blobs[:, 0, :1]):
        with pytest.raises(ValueError, match=f"1 features, but {Model.__name__} is expecting 2 features"):
            model.predict(other)


def test_not_fitted_and_no_nodes(Model, blobs):
    with pytest.raises(NotFittedError):
        Model().predict(blobs)
    with pytest.raises(probi.InputError, match="At least 1 node is required"):
        Model().fit(Nodes.from_dense(blobs)[:0])


@pytest.mark.slow
def test_too_few_distinct_points_warn_and_give_valid_output(Model):
    points = np.repeat([[0.0, 1.0], [5.0, 5.0]], 6, axis=0)
    with pytest.warns(ConvergenceWarning, match="2 of 4 clusters"):
        model = Model(4, random_state=0).fit(points)
    assert model.cluster_centers_.shape == (4, 2)
    assert np.isfinite(model.cluster_centers_).all()
    assert model.cost_ == 0.0
    np.testing.assert_array_equal(model.predict(points), model.labels_)


@pytest.mark.slow
def test_same_bits_for_any_number_of_threads(Model):
    rng = np.random.default_rng(0)
    nodes = Nodes.from_dense(rng.standard_normal((21_000, 4, 5)))
    assert len(nodes.pieces()) > 2
    models = [Model(7, n_init=2, random_state=1, n_jobs=n).fit(nodes) for n in (1, 2, 7)]
    assert len({model.cluster_centers_.tobytes() for model in models}) == 1
    assert len({model.labels_.tobytes() for model in models}) == 1
    assert len({model.cost_ for model in models}) == 1


def test_parameters_are_stored_as_given(Model):
    given = {"n_clusters": 5, "init": [[1.0]], "random_state": np.random.default_rng(0), "n_jobs": 2, "max_iter": 7}
    parameters = Model(**given).get_params()
    assert all(parameters[name] is value for name, value in given.items())


# -- PROBI alone --------------------------------------------------------------------------------------------------


def stream(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    middles = 20 * rng.normal(size=(4, 3))
    return Nodes.from_dense(middles[rng.integers(4, size=n)][:, None] + rng.normal(size=(n, 5, 3)))


@pytest.mark.slow
def test_fit_is_a_summary_that_is_solved_and_rounds_on_all_nodes():
    nodes = stream()
    model = PROBI(4, summary_size=200, random_state=7).fit(nodes)
    summary = probi.Summary(4, 200, random_state=7)
    summary.update(nodes)
    assert model.summary_.to_bytes() == summary.to_bytes()
    solved = probi.solve(summary, 4, random_state=7)
    refined = probi.solve(nodes, 4, init=solved.centers, max_iter=12)
    assert_same_sets(model.cluster_centers_, refined.centers)
    assert model.cost_ == probi.expected_cost(nodes, model.cluster_centers_)
    assert model.cost_ < probi.expected_cost(nodes, solved.centers)
    assert model.result_.standard_error == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("size", "parameters"), [(6000, {}), (200, {"preset": "paper"}), (200, {"outliers": 0.01})])
def test_fit_leaves_centers_where_they_are(size, parameters):
    # Those of all nodes, of the paper, and of nodes without outliers.
    model = PROBI(4, summary_size=size, random_state=7, **parameters).fit(stream(1600))
    outliers = {name: value for name, value in parameters.items() if name == "outliers"}
    solved = probi.solve(model.summary_, 4, random_state=model._seed, **outliers)
    assert_same_sets(model.cluster_centers_, solved.centers)


def assert_same_sets(some, other):
    np.testing.assert_array_equal(some[np.lexsort(some.T)], other[np.lexsort(other.T)])


def test_partial_fit_reads_what_fit_reads():
    nodes = stream()
    whole = PROBI(4, summary_size=200, random_state=7).fit(nodes)
    batches = PROBI(4, summary_size=200, random_state=7)
    for start in range(0, len(nodes), 700):
        batches.partial_fit(nodes[start : start + 700])
    assert batches.summary_.to_bytes() == whole.summary_.to_bytes()
    assert_same_sets(batches.cluster_centers_, probi.solve(whole.summary_, 4, random_state=7).centers)


def test_partial_fit_solves_when_asked_and_only_then(monkeypatch):
    calls = []
    monkeypatch.setattr(probi.estimators, "solve_quietly", lambda *given: calls.append(1) or solve_quietly(*given))
    nodes = stream(500)
    model = PROBI(4, random_state=0)
    for start in range(0, 500, 10):
        model.partial_fit(nodes[start : start + 10])
    assert not calls
    model.predict(nodes)
    model.transform(nodes)
    assert model.cost_ > 0.0
    assert len(calls) == 1
    model.partial_fit(nodes[:1])
    assert model.result_.cost > 0.0
    assert len(calls) == 2


def test_after_partial_fit_the_cost_is_an_estimate_and_there_are_no_labels():
    nodes = stream()
    model = PROBI(4, summary_size=200, random_state=1).fit(nodes)
    assert len(model.labels_) == 6000
    model.partial_fit(nodes)
    assert not hasattr(model, "labels_")
    assert model.result_.standard_error > 0.0
    truth = 2 * probi.expected_cost(nodes, model.cluster_centers_)
    assert abs(model.cost_ - truth) < 5 * model.result_.standard_error
    with pytest.raises(AttributeError, match="no attribute 'nonsense_'"):
        _ = model.nonsense_


def test_a_fresh_model_is_not_fitted():
    with pytest.raises(NotFittedError):
        PROBI().predict(np.zeros((3, 2)))
    assert not hasattr(PROBI(), "cluster_centers_")
    assert not hasattr(PROBI(), "summary_")


def test_fewer_nodes_than_clusters_fail_when_centers_are_asked_for():
    model = PROBI(5, random_state=0).partial_fit(np.eye(3))
    with pytest.raises(probi.InputError, match="n_clusters=5"):
        model.predict(np.eye(3))
    assert model.partial_fit(np.eye(3) + 5.0).predict(np.eye(3)).shape == (3,)


def test_partial_fit_refuses_other_features_and_goes_on():
    model = PROBI(2, random_state=0).partial_fit(np.eye(3))
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.partial_fit(np.zeros((4, 2)))
    assert model.summary_.n_nodes == 3


@pytest.mark.slow
def test_a_pickled_stream_goes_on():
    nodes = stream(3000)
    model = PROBI(3, summary_size=60, random_state=0).partial_fit(nodes[:1777])
    copy = pickle.loads(pickle.dumps(model))
    model.partial_fit(nodes[1777:])
    copy.partial_fit(nodes[1777:])
    assert copy.summary_.to_bytes() == model.summary_.to_bytes()
    np.testing.assert_array_equal(copy.cluster_centers_, model.cluster_centers_)


def test_fit_starts_anew():
    nodes = stream(900)
    model = PROBI(3, random_state=0).partial_fit(nodes)
    assert model.fit(nodes[:300]).summary_.n_nodes == 300
