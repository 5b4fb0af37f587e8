"""PLloyd as a scikit-learn estimator."""

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
from sklearn.utils.estimator_checks import check_estimator

import probi
from probi import Nodes, PLloyd

# What scikit-learn states of its own KMeans, and no more: weights and repeated rows are drawn in another order.
EXPECTED_FAILURES = {"check_sample_weight_equivalence_on_dense_data": "sample_weight is not equivalent to repeating"}


@pytest.fixture(scope="module")
def blobs():
    """Thirty nodes of four realizations around three places, (30, 4, 2)."""
    rng = np.random.default_rng(3)
    places = np.repeat([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]], [12, 10, 8], axis=0)
    return places[:, None] + rng.normal(scale=0.5, size=(30, 4, 2))


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_scikit_learns_checks_pass(preset):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            PLloyd(preset=preset), expected_failed_checks=EXPECTED_FAILURES, on_skip=None, on_fail="raise"
        )
    count = Counter(result["status"] for result in results)
    assert count["failed"] == 0
    assert count["passed"] >= 50  # a suite that runs on nothing passes too


def test_three_d_input_is_nodes_with_equal_probabilities(blobs):
    dense = PLloyd(3, random_state=0).fit(blobs)
    nodes = PLloyd(3, random_state=0).fit(Nodes.from_dense(blobs))
    assert dense.cluster_centers_.tobytes() == nodes.cluster_centers_.tobytes()
    assert Counter(dense.labels_.tolist()) == {0: 12, 1: 10, 2: 8}


def test_attributes_agree_with_the_functions(blobs):
    nodes = Nodes.from_dense(blobs)
    model = PLloyd(3, random_state=0).fit(nodes)
    assert model.cost_ == probi.expected_cost(nodes, model.cluster_centers_)
    assert model.score(nodes) == -model.cost_
    assert model.lower_bound_ <= model.cost_
    assert model.n_features_in_ == 2
    np.testing.assert_array_equal(model.predict(nodes), model.labels_)
    np.testing.assert_array_equal(model.transform(nodes), probi.expected_distances(nodes, model.cluster_centers_))
    np.testing.assert_array_equal(clone(model).fit_predict(nodes), model.labels_)


def test_transform_keeps_float32(blobs):
    model = PLloyd(3, random_state=0).fit(blobs.astype(np.float32))
    assert model.transform(blobs.astype(np.float32)).dtype == np.float32


def test_sample_weight_multiplies_the_weights_of_nodes(blobs):
    weights = np.arange(1.0, 31.0)
    once = PLloyd(3, random_state=0).fit(Nodes.from_dense(blobs, weights=weights**2))
    twice = PLloyd(3, random_state=0).fit(Nodes.from_dense(blobs, weights=weights), sample_weight=weights)
    assert once.cluster_centers_.tobytes() == twice.cluster_centers_.tobytes()
    assert twice.score(Nodes.from_dense(blobs), sample_weight=weights**2) == -twice.cost_


@pytest.mark.parametrize("weights", [[1.0, 2.0], np.ones((30, 1)), -np.ones(30), np.full(30, np.nan)])
def test_bad_sample_weights_are_refused(blobs, weights):
    with pytest.raises(ValueError, match="weight"):
        PLloyd(3).fit(blobs, sample_weight=weights)


def test_set_output_and_names_of_features(blobs):
    frame = PLloyd(3, random_state=0).set_output(transform="pandas").fit(blobs).transform(blobs)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["plloyd0", "plloyd1", "plloyd2"]


def test_pipeline_clone_and_pickle(blobs):
    points = blobs[:, 0]
    pipe = make_pipeline(StandardScaler(), PLloyd(3, random_state=0)).fit(points)
    again = clone(pipe).fit(points)
    np.testing.assert_array_equal(pipe.predict(points), again.predict(points))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(pipe)).predict(points), pipe.predict(points))


@pytest.mark.parametrize("make", [lambda X: X[:, 0], Nodes.from_dense], ids=["points", "nodes"])
def test_grid_search_over_n_clusters(blobs, make):
    order = np.random.default_rng(0).permutation(len(blobs))
    search = GridSearchCV(PLloyd(random_state=0, n_init=2), {"n_clusters": [1, 2, 3]}, cv=3).fit(make(blobs[order]))
    assert search.best_params_ == {"n_clusters": 3}


def test_a_data_frame_gives_names_and_other_names_are_refused(blobs):
    frame = pd.DataFrame(blobs[:, 0], columns=["a", "b"])
    model = PLloyd(3, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"b": "c"}))
    model.fit(Nodes.from_points(frame))
    assert not hasattr(model, "feature_names_in_")


def test_other_numbers_of_features_are_refused(blobs):
    model = PLloyd(3, random_state=0).fit(blobs)
    for other in (blobs[:, :, :1], Nodes.from_dense(blobs[:, :, :1]), blobs[:, 0, :1]):
        with pytest.raises(ValueError, match=r"1 features, but PLloyd is expecting 2 features"):
            model.predict(other)


def test_not_fitted_and_no_nodes(blobs):
    with pytest.raises(NotFittedError):
        PLloyd().predict(blobs)
    with pytest.raises(probi.InputError, match="0 nodes"):
        PLloyd().fit(Nodes.from_dense(blobs)[:0])


def test_too_few_distinct_points_warn_and_give_valid_output():
    points = np.repeat([[0.0, 1.0], [5.0, 5.0]], 6, axis=0)
    with pytest.warns(ConvergenceWarning, match="2 of 4 clusters"):
        model = PLloyd(4, random_state=0).fit(points)
    assert model.cluster_centers_.shape == (4, 2)
    assert np.isfinite(model.cluster_centers_).all()
    assert model.cost_ == 0.0
    np.testing.assert_array_equal(model.predict(points), model.labels_)


def test_same_bits_for_any_number_of_threads():
    rng = np.random.default_rng(0)
    nodes = Nodes.from_dense(rng.standard_normal((30_000, 4, 5)))
    assert len(nodes.pieces()) > 2
    models = [PLloyd(7, n_init=2, random_state=1, n_jobs=n).fit(nodes) for n in (1, 2, 3, 7)]
    assert len({model.cluster_centers_.tobytes() for model in models}) == 1
    assert len({model.labels_.tobytes() for model in models}) == 1
    assert len({model.cost_ for model in models}) == 1


def test_parameters_are_stored_as_given():
    given = {"n_clusters": 5, "init": [[1.0]], "random_state": np.random.default_rng(0), "n_jobs": 2, "max_iter": 7}
    parameters = PLloyd(**given).get_params()
    assert all(parameters[name] is value for name, value in given.items())
