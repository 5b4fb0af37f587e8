"""What people see who type a name: representations, signatures, tab completion, help."""

import inspect
import pydoc

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import probi
from probi import Nodes

X = np.random.default_rng(0).normal(size=(40, 3, 2)) + 9 * (np.arange(40) % 2)[:, None, None]


def summary_of(nodes, k=2):
    summary = probi.Summary(k, random_state=0)
    summary.update(nodes)
    return summary


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (Nodes.from_points([[1.0]]), "Nodes(1 node, 1 realization (1 per node), 1 feature, float64, mass 1)"),
        (summary_of([[1.0]], 1), "Summary(1 node read, 1 kept, up to 1 cluster, coreset of 200, mass 1)"),
        (probi.solve([[1.0], [3.0]], 1, random_state=0), "Result(1 center, cost 2, 0 of it spread)"),
    ],
)
def test_one_is_singular(thing, said):
    assert repr(thing) == said


def test_tables_in_a_notebook_are_small_and_escaped():
    nodes = Nodes.from_dense(X, ids=["<script>"] * 40)
    result = probi.solve(X, 2, random_state=0)
    summary = summary_of(X)
    summary.about["name"] = "<script>"
    for thing in (nodes, result, summary, Nodes.from_points(np.zeros((0, 2))), probi.Summary(2)):
        html = thing._repr_html_()
        assert html.startswith("<table>")
        assert html.endswith("</table>")
        assert "<script>" not in html
        assert pydoc.html.escape(repr(thing)) in html
    assert nodes._repr_html_().count("<tr>") == 11  # the head, and the first nodes
    assert result._repr_html_().count("<tr>") == 3
    assert "<th>nodes read</th><td>40</td>" in summary._repr_html_()
    many = probi.solve(np.arange(30.0)[:, None] * np.ones(50), 25, random_state=0)._repr_html_()
    assert (many.count("<tr>"), many.count("center x")) == (21, 8)


def signatures():
    for name in probi.__all__:
        thing = getattr(probi, name)
        yield name, thing
        if inspect.isclass(thing):
            for member in vars(thing):
                if not member.startswith("_") and callable(getattr(thing, member)):
                    yield f"{name}.{member}", getattr(thing, member)


def test_signatures_fit_on_a_screen():
    found = {name: str(inspect.signature(thing)) for name, thing in signatures() if inspect.isroutine(thing)}
    assert len(found) > 30
    # Five lines of a terminal.
    assert {name: said for name, said in found.items() if len(said) > 400 or "numpy." in said} == {}
    assert "numpy." not in str(inspect.signature(probi.Clusters))


def test_completion_shows_what_was_fitted():
    model = probi.PROBI(2, random_state=0)
    assert "cluster_centers_" not in dir(model)
    fitted = {"cluster_centers_", "cost_", "lower_bound_", "n_iter_", "result_", "summary_"}
    assert fitted <= set(dir(model.partial_fit(X)))
    assert "result_" not in vars(model)  # looking is not solving
    assert "labels_" not in dir(model)
    assert {*fitted, "labels_"} <= set(dir(model.fit(X)))
    assert {*fitted, "labels_"} - {"summary_"} <= set(dir(probi.PLloyd(2, random_state=0).fit(X)))
    assert_array_equal(model.labels_, model.predict(X))


def test_help_says_where_to_begin():
    page = pydoc.plain(pydoc.render_doc(probi))
    assert "probi.solve(X, n_clusters=8, random_state=0)" in page
    assert "class Nodes" in page
