"""Settings, scores and ranks of the field; a system is added as the page says."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import probi
from benchmarks import peers
from experiments.field import noise, page, ranks, run, scores, sets
from experiments.field.worker import Objects
from experiments.records import Records, read


@pytest.mark.parametrize("name", ["iris", "groups", "moons"])
def test_points_are_standardized_and_have_classes(name, tmp_path):
    X, classes = sets.ALL[name].points(tmp_path)
    assert_allclose(X.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(X.std(axis=0), 1.0)
    assert len(np.unique(classes)) == classes.max() + 1 >= 2


def test_without_its_file_a_data_set_is_missing(tmp_path):
    assert [name for name, one in sets.ALL.items() if one.points(tmp_path) is None] == [
        "Covertype", "KDD Cup", "UJIIndoorLoc", "Beijing"
    ]  # fmt: skip


@pytest.mark.parametrize("kind", noise.KINDS)
def test_ways_to_make_data_uncertain(kind):
    X = np.random.default_rng(0).normal(size=(40, 3))
    spreads = []
    for level in noise.LEVELS:
        points, probabilities, offsets = noise.realizations(kind, X, level, 1, "some")
        nodes = probi.Nodes(points, probabilities, offsets)
        assert len(nodes) == 40
        assert (nodes.total_probabilities <= 1 + 1e-12).all()
        assert (nodes.total_probabilities.min() < 1) == (kind == "absent")
        again = noise.realizations(kind, X, level, 1, "some")
        assert_array_equal(points, again[0])
        assert not np.array_equal(points, noise.realizations(kind, X, level, 2, "some")[0])
        spreads.append(nodes.total_probabilities.mean() if kind == "absent" else -np.median(nodes.variances.sum()))
    assert spreads == sorted(spreads, reverse=True)  # a higher level is more uncertain


def test_missing_values_come_from_the_nearest_rows_that_know_them():
    X = np.array([[0.0, 5.0], [0.1, 6.0], [0.2, 7.0], [9.0, 8.0]])
    rng = np.random.default_rng(3)
    points, _, _ = noise.missing(X, 0.5, rng)
    rng = np.random.default_rng(3)
    gone = rng.random(X.shape) < 0.5
    gone[np.arange(4), rng.integers(2, size=4)] = False
    assert 0 < gone.sum() < 4
    points = points.reshape(4, noise.M, 2)
    for i, f in np.argwhere(gone):
        assert set(points[i, :, f]) <= set(X[~gone[:, f], f])
    for i, f in np.argwhere(~gone):
        assert_array_equal(points[i, :, f], X[i, f])


def test_objects_vote_with_their_probabilities():
    objects = Objects(np.array([[0.0], [2.0], [4.0], [9.0]]), np.array([0.2, 0.1, 0.1, 1.0]), np.array([0, 3, 4]))
    assert_allclose(objects.means, [[1.5], [9.0]])
    labels, confidence = objects.vote(np.array([0, 1, 2, 1]))
    assert_array_equal(labels, [0, 1])
    assert_allclose(confidence["share"], [0.5, 1.0])


def test_the_cost_of_a_partition_has_the_best_centers():
    nodes = probi.Nodes.from_points([[0.0], [1.0], [5.0], [20.0], [22.0]])
    assert scores.partition_cost(nodes, np.array([0, 0, 0, 1, 1])) == pytest.approx(5.0 + 2.0)
    # Noise has no center, but is served.
    assert scores.partition_cost(nodes, np.array([0, 0, -1, 1, 1])) == pytest.approx(1.0 + 4.5 + 2.0, abs=0.5)


def test_calibration_counts_matched_labels():
    classes, labels = np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1])
    made = scores.calibration(np.array([0.95, 0.95, 0.95, 0.65]), labels, classes)
    assert made == pytest.approx(
        {"ece": (3 * 0.05 + 0.65) / 4, "brier": (3 * 0.05**2 + 0.65**2) / 4, "confidence": 0.875, "right": 0.75}
    )
    with_noise = scores.calibration(np.array([0.95, 0.95, 0.95, np.nan]), np.array([1, 1, 0, -1]), classes)
    assert with_noise["right"] == 1.0


def test_ranks_agree_with_friedman():
    rng = np.random.default_rng(0)
    values = {"a": rng.normal(size=30) + 1, "b": rng.normal(size=30), "c": rng.normal(size=30)}
    made = ranks.ranking(values, is_higher_better=True)
    assert next(iter(made.ranks)) == "a"
    assert made.p_value == pytest.approx(stats.friedmanchisquare(*values.values()).pvalue)
    # Demšar's table 5: 2.343 for three systems at the level 0.05.
    assert made.critical == pytest.approx(2.343 * np.sqrt(3 * 4 / (6 * 30)), rel=1e-3)
    lower = ranks.ranking({**values, "d": np.full(30, np.nan)}, is_higher_better=False)
    assert lower.ranks["d"] == 4.0


def test_holm_and_paired_tests():
    assert ranks.holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})
    rng = np.random.default_rng(0)
    ours = rng.normal(size=15)
    others = {"better": ours + 0.1, "worse": ours - 0.1, "same": ours, "noise": rng.normal(size=15)}
    assert list(ranks.significantly_better(ours, others)) == ["better"]


SMALL = [("iris", "multimodal", noise.LEVELS[0], 0), ("moons", "multimodal", noise.LEVELS[1], 1)]


@pytest.mark.process
@pytest.mark.slow
def test_a_system_is_added_as_the_page_says(tmp_path, monkeypatch):
    here = lambda name, requires: None if "jpype1" in requires else Path(sys.executable)  # noqa: E731
    monkeypatch.setattr(peers, "environment", here)
    monkeypatch.setattr(run, "settings", lambda n_seeds=2: SMALL)
    chosen = tmp_path / "systems"
    chosen.mkdir()
    for name in ("elki.py", "probi.py"):
        (chosen / name).write_text((run.SYSTEMS / name).read_text())
    monkeypatch.setattr(run, "SYSTEMS", chosen)
    monkeypatch.setattr(page, "SYSTEMS", chosen)
    (tmp_path / "ward.py").write_text(page.EXAMPLE)
    # The first setting was run before, but the new system gave no answer.
    first = dict(zip(run.SETTING, SMALL[0], strict=True))
    took = {"seconds": 0.1, "cpu_seconds": 0.1, "peak_mb": 9.0, "base_mb": 8.0}
    made = Records(tmp_path / "results" / "field.csv", (*run.SETTING, "system"), run.VALUES)
    for system in ("probi", "probi, paper preset", "probi, 5 % outliers"):
        made.add(**first, system=system, n_clusters=3, ari=0.5, nmi=0.5, cost=1.0, **took, version="probi 0")
    made.add(**first, system="Ward of means", note="took more than 120 seconds")
    said: list[str] = []
    run.run(tmp_path, tmp_path / "results", 2, [tmp_path / "ward.py"], said.append)
    assert [text for text in said if "settings" in text] == ["field: 2 of 2 settings"]
    rows = read(tmp_path / "results" / "field.csv")
    assert len(rows) == 2 * 4
    assert not any(row["note"] for row in rows)
    assert sum(row["version"] == "probi 0" for row in rows) == 3  # what was recorded is not run again
    ours = {page._setting(r): r for r in rows if r["system"] == "probi"}
    for row in rows:
        assert row["seconds"] > 0
        assert row["cost"] is None or row["cost"] >= 0.999 * ours[page._setting(row)]["cost"]
    monkeypatch.setattr(page, "settings", run.settings)
    text = page.field_page(tmp_path / "results")
    assert "**2 of 2** runs" in text
    assert "| Ward of means | scikit-learn" in text
    assert "- ELKI UK-means: could not be installed." in text
    assert "| iris | 150 × 4, 3 | species |" in text
    assert "- Covertype: no result" in text
    assert (tmp_path / "results" / "field.svg").is_file()


def test_the_example_has_about_ten_lines():
    lines = [line for line in page.EXAMPLE.splitlines() if line and not line.startswith('"""')]
    assert len(lines) <= 10


def test_the_page_says_where_others_are_better(tmp_path):
    made = Records(tmp_path / "field.csv", (*run.SETTING, "system"), run.VALUES)
    for level in noise.LEVELS:
        for seed in range(5):
            shift = 0.01 * seed
            values = {"seconds": 0.1, "cpu_seconds": 0.1, "peak_mb": 9.0, "base_mb": 8.0, "version": "x 1"}
            where = {"data": "moons", "kind": "Gaussian", "level": level, "seed": seed}
            made.add(**where, system="probi", ari=0.5 + shift, nmi=0.5, cost=10.0, **values)
            made.add(**where, system="HDBSCAN of means", ari=0.9 + shift, nmi=0.9, cost=None, **values)
            made.add(**where, system="k-means of means", ari=0.4 + 2 * shift, nmi=0.5, cost=9.0, **values)
    text = page.field_page(tmp_path)
    better = text.partition("## Where others are better")[2].partition("## ")[0]
    assert re.search(
        r"\| moons \| Gaussian \| HDBSCAN of means \| 0.920 \| 0.520 \| \S+ \| – \| it follows densities", better
    )
    assert "By expected cost: moons, Gaussian: k-means of means." in better
    assert "k-means of means |" not in better
