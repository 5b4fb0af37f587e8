"""Arrays and lists of arrays in the place of nodes: what they become, and what is said of those that fit nowhere."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal

import probi
from probi import PROBI, InputError, InputWarning, Nodes, PLloyd
from probi.coreset.lss import lss_coreset
from probi.nodes import as_nodes

X2 = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0], [9.0, 8.0]])
X3 = np.stack([X2, X2 + 0.5], axis=1)
RAGGED = [X2[:1], X2[:3], X2[2:]]
CENTERS = [[0.0, 0.5], [9.0, 8.5]]

GIVEN = [
    (X2, Nodes.from_points(X2)),
    (X2.tolist(), Nodes.from_points(X2)),
    (X2.astype(np.float32), Nodes.from_points(X2.astype(np.float32))),
    (X3, Nodes.from_dense(X3)),
    (X3.tolist(), Nodes.from_dense(X3)),
    (RAGGED, Nodes.from_list(RAGGED)),
    (tuple(RAGGED), Nodes.from_list(RAGGED)),
    ([part.tolist() for part in RAGGED], Nodes.from_list(RAGGED)),
    (np.array([*RAGGED, None], object)[:3], Nodes.from_list(RAGGED)),
]


@pytest.mark.parametrize(("given", "nodes"), GIVEN)
def test_arrays_become_nodes_by_their_shape(given, nodes):
    assert as_nodes(given) == nodes
    assert as_nodes(nodes) is nodes


@pytest.mark.parametrize("given", [X2, X3, RAGGED], ids=["2-D", "3-D", "list"])
def test_every_function_takes_arrays(given):
    nodes = as_nodes(given)
    assert probi.solve(given, 2, random_state=0).cost == probi.solve(nodes, 2, random_state=0).cost
    assert_array_equal(probi.assign(given, CENTERS), probi.assign(nodes, CENTERS))
    assert_array_equal(probi.expected_distances(given, CENTERS), probi.expected_distances(nodes, CENTERS))
    assert probi.expected_cost(given, CENTERS) == probi.expected_cost(nodes, CENTERS)
    assert_array_equal(probi.one_medians(given)[0], probi.one_medians(nodes)[0])
    with pytest.warns(probi.SolverWarning, match="no fewer"):
        assert lss_coreset(given, 1, 0.5, 0.1, random_state=0) == nodes
    summary = probi.Summary(2, random_state=0)
    summary.update(given)
    assert summary.coreset() == nodes
    window = probi.Window(1, n_periods=2, n_clusters=2)
    window.update(given, 0)
    assert window.n_nodes == len(nodes)
    for Model in (probi.PLloyd, probi.PROBI):
        assert_array_equal(Model(2, random_state=0).fit(given).labels_, Model(2, random_state=0).fit(nodes).labels_)


def test_from_list():
    nodes = Nodes.from_list(RAGGED, [[0.5], [0.2, 0.3, 0.5], [1.0, 0.0]], weights=[1, 2, 3], ids=["a", "b", "c"])
    expected = Nodes(
        np.concatenate(RAGGED), [0.5, 0.2, 0.3, 0.5, 1.0, 0.0], [0, 1, 4, 6], weights=[1, 2, 3], ids=["a", "b", "c"]
    )
    assert nodes == expected
    assert Nodes.from_list(X3) == Nodes.from_dense(X3)
    assert Nodes.from_list([X2.astype(np.float32), X2]).dtype == np.float64


@pytest.mark.parametrize(
    ("X", "probabilities", "match"),
    [
        ([], None, "X is empty"),
        ([X2, X2[:, :1]], None, r"X\[1\] has 1 feature, but X\[0\] has 2"),
        ([X2, X2[0]], None, r"X\[1\] must have 2 dimensions, but its shape is \(2,\)"),
        ([X2, X2[:0]], None, r"X\[1\] has shape \(0, 2\): the node has no realization"),
        (RAGGED, [[1.0]], "probabilities for 1 nodes, but X has 3"),
        (RAGGED, [[1.0], [0.5, 0.5], [0.5, 0.5]], "Node 1 has 3 realizations, but 2 probabilities"),
    ],
)
def test_what_is_no_list_of_nodes(X, probabilities, match):
    with pytest.raises(InputError, match=match):
        Nodes.from_list(X, probabilities)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (X2[:, 0], r"shape \(4,\). Give X.reshape\(-1, 1\)"),
        (X3[None], r"shape \(1, 4, 2, 2\). Nodes are \(n, d\)"),
        ([X2[0], X2[0, :1]], "X cannot be made an array"),
        ([X2, X2[0]], r"X\[1\] must have 2 dimensions"),
        (pd.DataFrame(X2), r"X is a DataFrame: Nodes.from_table\(X\)"),
        (scipy.sparse.csr_matrix(X2), r"sparse csr_matrix. Give X.toarray\(\)"),
        (probi.Summary(2), "A Summary no longer has its nodes"),
        (7, "Expected Nodes, an array of shape .* not int"),
        ("points.csv", "Expected Nodes, an array of shape .* not str"),
    ],
)
def test_wrong_shapes_are_answered_with_the_call_that_fits(given, match):
    for call in (lambda: probi.assign(given, CENTERS), lambda: probi.Summary(2).update(given)):
        with pytest.raises(InputError, match=match):
            call()


SHAPES = r"\(n, d\).*\(n, m, d\).*list of arrays of shape \(m, d\)"


@pytest.mark.parametrize("Model", [PLloyd, PROBI])
@pytest.mark.parametrize(
    ("n_clusters", "X", "match"),
    [
        (2, np.zeros((4, 3, 2, 2)), rf"X has shape \(4, 3, 2, 2\)\. Nodes are {SHAPES}"),
        (3, 3, f"Expected Nodes, an array of shape {SHAPES}, not int"),
        (3, "x.csv", f"Expected Nodes, an array of shape {SHAPES}, not str"),
        (3, None, f"Expected Nodes, an array of shape {SHAPES}, not NoneType"),
        (
            np.zeros((4, 2)), np.zeros((4, 2)),
            r"^n_clusters is data of shape \(4, 2\), .* Write PLloyd\(n_clusters\)\.fit\(X\) or solve\(X, n_clusters\)",
        ),
    ],
)  # fmt: skip
def test_estimators_say_what_goes_where(Model, n_clusters, X, match):
    with pytest.raises(InputError, match=match):
        Model(n_clusters).fit(X)


def test_a_name_is_no_init():
    for call in (lambda: probi.solve(X2, 2, init="k-means++"), lambda: probi.PLloyd(2, init="k-means++").fit(X2)):
        with pytest.raises(InputError, match=r"init is 'k-means\+\+', but must be centers.*Omit it"):
            call()


def test_exchanged_axes_are_noticed():
    draws = np.zeros((10, 5000, 2))
    said = re.escape("10 nodes with 5,000 realizations each. If the first axis holds the realizations, use X.transp")
    with pytest.warns(InputWarning, match=said) as caught:
        Nodes.from_dense(draws)
    assert caught[0].filename == __file__
    with pytest.warns(InputWarning, match="transpose") as caught:
        probi.PLloyd(2, random_state=0).fit(draws + np.arange(10)[:, None, None])
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(Nodes.from_dense(draws.transpose(1, 0, 2))) == 5000
        Nodes.from_list(draws)
        Nodes.from_dense(np.zeros((200, 1000, 2)))
        Nodes.from_dense(np.zeros((3, 500, 2)))
        Nodes.from_dense(np.zeros((1, 5000, 2)))
        Nodes.from_dense(draws, np.full((10, 5000), 1 / 5000))
        Nodes.from_gaussian(np.zeros((2, 2)), 1.0, n=2000, random_state=0)
