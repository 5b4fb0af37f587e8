"""What the pages on answers and calibration say is what was measured; tests that they rely on can fail."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import probi
from experiments import answers, calibration, generated
from experiments.answers_page import answers_page
from experiments.records import Records, read


def test_wrong_memberships_are_noticed():
    rng = np.random.default_rng(0)
    nodes = probi.Nodes.from_dense(rng.normal(size=(3, 20, 2)))
    centers = np.array([[-0.5, 0.0], [0.5, 0.0]])
    right = probi.memberships(nodes, centers)
    statistic, df = answers.compared(nodes, centers, right, rng)
    assert df == 3
    assert statistic < 16.3  # 0.999 of the chi-squared distribution
    assert answers.compared(nodes, centers, right[:, ::-1] * 0.1 + right * 0.9, rng)[0] > 100
    assert answers.compared(nodes, centers, np.array([[1.0, 0.0]] * 3), rng)[0] == np.inf


def test_tenths():
    confidence, right = np.array([0.31, 0.95, 1.0, 0.9, 0.35]), np.array([True, True, False, True, False])
    vague, sure = calibration.tenths(confidence, right, np.array([3.0, 1.0, 1.0, 1.0, 1.0]))
    error = np.sqrt(0.75**2 * 0.31 * 0.69 + 0.25**2 * 0.35 * 0.65)
    assert vague == pytest.approx({"tenth": 3, "n_nodes": 2, "confidence": 0.32, "right": 0.75, "error": error})
    error = np.sqrt(0.95 * 0.05 + 0.9 * 0.1) / 3
    assert sure == pytest.approx({"tenth": 9, "n_nodes": 3, "confidence": 0.95, "right": 2 / 3, "error": error})


def test_nodes_of_each_tenth_stand_for_all_of_it(monkeypatch):
    monkeypatch.setattr(calibration, "N_PER_TENTH", 100)
    confidence = np.repeat([0.35, 0.95], [50, 10_000])
    rows, weights = calibration._taken(confidence, np.random.default_rng(0))
    assert_array_equal(rows[:50], np.arange(50))
    assert_array_equal(weights, np.where(rows < 50, 1.0, 100.0))
    assert 60 <= len(rows) - 50 <= 140  # four standard deviations of 100


@pytest.mark.slow
def test_calibrated_and_not(tmp_path, monkeypatch):
    small = {"N_POOL": 3000, "N_FEW": 20, "N_PER_TENTH": 400, "N_SOLVED": 300, "N_DRAWS": 60, "MAX_ERROR": 0.045}
    for name, value in small.items():
        monkeypatch.setattr(calibration, name, value)
    monkeypatch.setattr(calibration, "SETTINGS", calibration.SETTINGS[2:3])
    calibration.run(tmp_path, lambda text: None)
    calibration.run(tmp_path, pytest.fail)  # nothing is left to do
    rows = read(tmp_path / "calibration.csv")
    assert {r["kind"] for r in rows} == set(calibration.KINDS)
    of = {kind: calibration.largest([r for r in rows if r["kind"] == kind]) for kind in calibration.KINDS}
    # Four standard errors are at most 0.18; groups overlap: places and origins differ by more.
    assert max(of["place"], of["origin"]) < 0.18 < of["place for origin"]
    text = calibration.calibration_page(tmp_path)
    assert f"| {calibration.SETTINGS[0].name} | {of['place']:.3f} | {of['origin']:.3f} |" in text
    assert (tmp_path / "calibration.svg").is_file()


def test_generated_data_has_the_structure_that_it_is_said_to_have():
    for (group, kind, _), make in generated.all_kinds(1):
        if group == generated.KINDS or "2-d" in kind:
            nodes, n_true = make()
            assert (n_true == 0) == (kind.startswith("none"))
            assert len(nodes) >= 30 * n_true
    points, is_out = generated.with_outliers("between clusters", 1000, 0.02, np.random.default_rng(0))
    assert points.shape == (1000, 2)
    assert is_out.sum() == 20


def test_the_page_says_what_was_wrong(tmp_path):
    numbers = Records(tmp_path / "answers_numbers.csv", ("kind", "seed"), ("group", "n_true", "recommended", "overlap"))
    numbers.add(kind="3, clear", seed=0, group=generated.KINDS, n_true=3, recommended=3, overlap=0.2)
    numbers.add(kind="drawn 0: 4 of 50", seed=0, group=generated.DRAWN, n_true=4, recommended=0, overlap=1.0)
    numbers.add(kind="drawn 1: 5 of 50", seed=1, group=generated.DRAWN, n_true=5, recommended=5, overlap=0.1)
    worlds = Records(tmp_path / "answers_worlds.csv", ("system",), ("n_nodes", *answers.TIMES))
    for name, cpu in (("solve", 1.0), ("worlds", 2.5)):
        worlds.add(system=name, n_nodes=10, seconds=9.0, cpu_seconds=cpu)
    text = answers_page(tmp_path)
    assert "take 2.5 times the CPU seconds of one solve" in text
    assert "**Right: 1 of 2**; 1 of the 1 others were answered “no clear number”" in text
    assert "| 4 of 50 | 4 | none | 1.00 |" in text
