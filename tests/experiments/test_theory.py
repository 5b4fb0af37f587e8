"""The experiments about theory, in small: they run to their end, go on where they were, and make a page."""

import numpy as np
import pytest
from samples import numbered

from experiments import theory
from experiments.theory_page import theory_page
from probi import Nodes

pytestmark = pytest.mark.slow


@pytest.fixture
def small(monkeypatch):
    """Sizes at which nothing means anything, and everything runs."""
    sizes = {
        "EPSILONS": (0.9, 0.8), "N_SEEDS": 2, "PRECISIONS": (0.9,), "N_RUNS": 20, "REALIZATIONS": (50, 100),
        "EQUAL_SEEDS": 1, "STEPS_K": 2, "DENSE": (60, 50, 2), "AXES": {"n": [(50, 3, 2), (100, 3, 2)]},
    }  # fmt: skip
    for name, value in sizes.items():
        monkeypatch.setattr(theory, name, value)
    monkeypatch.setattr(theory, "beijing_nodes", lambda data: numbered(n=1500, d=2))
    tails = Nodes.from_points(np.random.default_rng(0).normal(size=(9000, 1)) ** 5)
    monkeypatch.setattr(theory, "data_sets", lambda data: {"Tails": tails})


def test_a_page_of_all_parts(small, tmp_path):
    theory.run(tmp_path, tmp_path, lambda text: None)
    page = theory_page(tmp_path)
    for title in ("Is the promise kept?", "at the same size", "What each step costs", "Kumar", "Dense", "Running time"):
        assert title in page
    assert "0 of 2" in page
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    theory.run(tmp_path, tmp_path, lambda text: None)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_no_page_of_nothing(tmp_path):
    assert theory_page(tmp_path) == ""
