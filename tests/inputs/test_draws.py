"""Posterior draws: InferenceData, DataTree and Dataset, thinned on arrival."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import probi
from probi import InputError, Nodes
from probi.inputs import fields

xr = pytest.importorskip("xarray")

SCHOOLS = np.array(["Choate", "Deerfield", "Andover"])


def posterior(n_draws=50, seed=0):
    rng = np.random.default_rng(seed)
    return xr.Dataset(
        {
            "mu": (("chain", "draw"), rng.normal(size=(4, n_draws))),
            "theta": (("chain", "draw", "school"), rng.normal([0.0, 0.0, 9.0], 1.0, (4, n_draws, 3))),
            "slopes": (("chain", "draw", "school", "term"), rng.normal(size=(4, n_draws, 3, 2))),
        },
        coords={"school": SCHOOLS, "chain": range(4), "draw": range(n_draws)},
    )


def as_it_is(dataset):
    return dataset


def as_data_tree(dataset):
    return xr.DataTree.from_dict({"posterior": dataset, "sample_stats": dataset[["mu"]]})


def as_group(dataset):
    return as_data_tree(dataset)["posterior"]


def as_samples(dataset):
    return dataset.stack(sample=("chain", "draw"))


def has_data_trees(arviz):
    """Whether it is ArviZ 1.x, in some versions of which InferenceData is another name of DataTree."""
    return int(arviz.__version__.partition(".")[0]) > 0


def as_inference_data(dataset):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its next major version
        arviz = pytest.importorskip("arviz")
    if has_data_trees(arviz):
        pytest.skip("this ArviZ has DataTrees")
    return arviz.InferenceData(posterior=dataset)


def by_arviz(dataset):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arviz = pytest.importorskip("arviz")
        values = {name: dataset[name].to_numpy() for name in dataset.data_vars}
        dims = {"theta": ["school"], "slopes": ["school", "term"]}
        if has_data_trees(arviz):
            return arviz.from_dict({"posterior": values}, coords={"school": SCHOOLS}, dims=dims)
        return arviz.from_dict(posterior=values, coords={"school": SCHOOLS}, dims=dims)


def by_arviz_base(dataset):
    """The part of ArviZ 1.x that makes its objects; it also stands beside older versions."""
    arviz = pytest.importorskip("arviz_base")
    values = {name: dataset[name].to_numpy() for name in dataset.data_vars}
    dims = {"theta": ["school"], "slopes": ["school", "term"]}
    groups = {"posterior": values, "sample_stats": {"lp": values["mu"]}}
    return arviz.from_dict(groups, coords={"school": SCHOOLS}, dims=dims)


FORMS = [as_it_is, as_data_tree, as_group, as_samples, as_inference_data, by_arviz, by_arviz_base]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_any_version_of_arviz(form):
    dataset = posterior()
    nodes = Nodes.from_draws(form(dataset), node="school")
    assert_array_equal(nodes.ids, SCHOOLS)
    assert_array_equal(np.diff(nodes.offsets), 200)
    wanted = np.concatenate([dataset.theta.to_numpy()[..., None], dataset.slopes.to_numpy()], axis=-1)
    wanted = wanted.reshape(200, 3, 3).transpose(1, 0, 2)
    assert_array_equal(nodes.points.reshape(3, 200, 3), wanted)


def test_var_names():
    nodes = Nodes.from_draws(posterior(), "theta", node="school")
    assert nodes.n_features == 1
    assert Nodes.from_draws(posterior(), ["slopes"], node=("school", "term")).shape == (6, 1)
    assert Nodes.from_draws(posterior().theta, node="school") == nodes


def test_thousands_of_draws_are_thinned(monkeypatch):
    dataset = posterior(n_draws=1000)
    whole = Nodes.from_draws(dataset, node="school", max_realizations=None)
    assert_array_equal(np.diff(whole.offsets), 4000)
    nodes = Nodes.from_draws(dataset, node="school")
    assert np.diff(nodes.offsets).max() <= 500
    assert_array_equal(nodes.ids, SCHOOLS)
    centers = np.random.default_rng(0).normal(size=(5, 3))
    assert_allclose(probi.expected_distances(nodes, centers), probi.expected_distances(whole, centers), rtol=0.05)
    # The same bits, however the draws are read.
    monkeypatch.setattr(fields, "BLOCK_BYTES", 1)
    assert Nodes.from_draws(dataset, node="school") == nodes


@pytest.mark.parametrize(
    ("obj", "arguments", "message"),
    [
        (np.zeros((4, 10, 3)), {"node": "school"}, "obj has no posterior: give InferenceData, a DataTree or a Dataset"),
        (posterior(), {"node": "schools"}, "There is no dimension 'schools'.*Write node=.school"),
        (posterior(), {"node": "school", "var_names": "eta"}, "There is no variable 'eta'; there are 'mu', 'theta'"),
        (posterior(), {"node": "school", "var_names": "mu"}, "Variable 'mu' has no dimension 'school'"),
        (posterior(), {"node": "school", "max_realizations": 0}, "max_realizations"),
    ],
)
def test_messages(obj, arguments, message):
    with pytest.raises(InputError, match=message):
        Nodes.from_draws(obj, **arguments)
