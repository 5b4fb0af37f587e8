"""Systems for points: what runs is recorded with both costs, what is missing or fails with its reason."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import probi
from benchmarks import peers as environments
from experiments import point_peers, point_peers_page
from experiments.load import OtherLoad
from experiments.peers import Peer, otis_nodes, reason
from experiments.records import Records, read

LONG_PATH = "/home/someone/.cache/peers/x/lib"


def rows_of(tmp_path, monkeypatch, nodes, chosen):
    monkeypatch.setattr(point_peers, "data_sets", lambda data: {"few": (3, lambda: nodes)})
    monkeypatch.setattr(point_peers, "POINT_PEERS", chosen)
    monkeypatch.setattr(point_peers.peers, "RUNS", 1)
    said = []
    for _ in range(2):  # the second time there is nothing left to do
        point_peers.run(tmp_path, Records(tmp_path / "points.csv", point_peers.KEYS, point_peers.VALUES), said.append)
    assert len(said) == 1 + len(chosen)
    return {row["peer"]: row for row in read(tmp_path / "points.csv")}


@pytest.mark.process
def test_a_peer_has_both_costs_and_one_that_fails_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "environment", lambda name, requirements: Path(sys.executable))
    nodes = otis_nodes()[:200]
    chosen = (
        Peer("KMeans", "gravity", "kmeans_once", ("scikit-learn",)),
        Peer("broken", "gravity", "nothing", ("nothing",)),
    )
    found = rows_of(tmp_path, monkeypatch, nodes, chosen)
    ours, theirs = found["probi"], found["KMeans"]
    assert (ours["n"], ours["d"], ours["runs"]) == (200, 3, 1)
    assert min(ours["seconds"], theirs["seconds"]) > 0
    assert ours["cost"] <= 1.001 * theirs["cost"]
    assert theirs["squares"] <= 1.2 * ours["squares"]
    assert found["broken"]["cost"] is None
    assert found["broken"]["note"] == "KeyError: 'nothing'"
    text = point_peers_page.points_section(tmp_path)
    assert "### few: 200 × 3, k = 3" in text
    assert "- broken: KeyError: 'nothing'." in text


def test_a_peer_that_cannot_be_installed_is_a_row(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "environment", lambda name, requirements: None)
    monkeypatch.setattr(point_peers, "PROBI", Peer("probi", "gravity", "none", ("none",)))
    found = rows_of(tmp_path, monkeypatch, probi.Nodes.from_points(np.eye(4)), point_peers.POINT_PEERS[1:2])
    assert {row["note"] for row in found.values()} == {"could not be installed"}
    text = point_peers_page.points_section(tmp_path)
    assert "No system gave an answer." in text
    assert "- faiss: could not be installed." in text


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (subprocess.TimeoutExpired([LONG_PATH], 60), "took more than 60 seconds"),
        (subprocess.CalledProcessError(-4, [LONG_PATH], stderr=""), "exit status -4"),
        (
            subprocess.CalledProcessError(1, [LONG_PATH], stderr=f"first\n{LONG_PATH}/a.so: no symbol"),
            "a.so: no symbol",
        ),
        (
            FileNotFoundError(2, "No such file or directory", f"{LONG_PATH}/x"),
            "[Errno 2] No such file or directory: 'x'",
        ),
        (ValueError(""), "ValueError"),
    ],
)
def test_reasons_name_no_folder(error, line):
    assert isinstance(error, point_peers.FAILURES)
    assert reason(error) == line


def test_points_are_gravity_centers_in_the_precision_of_the_data():
    points = np.arange(12, dtype=np.float32).reshape(6, 2)
    seen = point_peers.as_points(probi.Nodes.from_groups(points, 3))
    assert seen.dtype == np.float32
    np.testing.assert_allclose(seen, [[2, 3], [8, 9]])
    assert point_peers.as_points(probi.Nodes.from_points(points)) is not None


def test_squared_cost_is_the_sum_of_the_definition(monkeypatch):
    monkeypatch.setattr(point_peers, "BLOCK", 7)
    rng = np.random.default_rng(0)
    points, centers = rng.normal(size=(50, 3)).astype(np.float32) + 1000, rng.normal(size=(4, 3)) + 1000
    expected = sum(min(sum((x - c) ** 2) for c in centers) for x in points.astype(float))
    assert point_peers.squared_cost(points, centers) == pytest.approx(expected, rel=1e-12)


def test_a_coreset_that_fails_is_a_row(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "environment", lambda name, requirements: None)
    points = np.random.default_rng(0).normal(size=(3000, 2))
    monkeypatch.setattr(point_peers, "coreset_points", lambda data: {"few": lambda: points})
    records = Records(tmp_path / "points_coresets.csv", point_peers.CORESET_KEYS, point_peers.CORESET_VALUES)
    point_peers.run_coresets(tmp_path, records, lambda text: None)
    found = {row["peer"]: row for row in read(records.path)}
    assert found["probi"]["size"] == found["uniform sample"]["size"] == 2000
    assert 1 <= found["probi"]["found"] < 1.05
    assert 1 <= found["uniform sample"]["at_random"] < 1.2
    assert found["coreax, kernel herding"]["note"] == "could not be installed"
    assert "few, 3,000 × 2: coreax, kernel herding: could not be installed." in point_peers_page._coresets(tmp_path)


def test_the_page_says_where_others_win(tmp_path):
    made = Records(tmp_path / "points.csv", point_peers.KEYS, point_peers.VALUES)
    row = {"data_set": "A", "k": 5, "n": 1000, "d": 2, "runs": 3, "other_cores": 0.25}
    made.add(peer="probi", seconds=1.0, cost=100.0, squares=220.0, **row)
    made.add(peer="faiss", seconds=0.5, cost=100.5, squares=200.0, **row)
    made.add(peer="FLSpp", seconds=2.0, cost=99.0, squares=200.0, **row)
    made.add(peer="superkmeans", seconds=0.1, cost=120.0, squares=400.0, **row)
    (tmp_path / "points_machine.json").write_text(
        '{"cores": 2, "processor": "P", "memory_gb": 8, "system": "S", "python": "3", "date": "D", "note": ""}'
    )
    text = point_peers_page.points_section(tmp_path)
    assert "| faiss | 0.5 | 0.50 x | 1.0050 | 1.1000 | 3 |" in text
    faster, cheaper = text.partition("### Where they win")[2].split("A lower cost than probi's")
    assert "- A: faiss, 0.50 times" in faster
    assert "superkmeans" not in faster
    assert "- A: FLSpp, 2.00 times the seconds, 0.9900 times the cost." in cheaper
    assert "Of 3 results 2 took less time" in text
    assert "In squares 2 of 3 results" in text
    assert "other work kept 0.2 cores busy" in text


def test_better_coresets_are_named(tmp_path):
    made = Records(tmp_path / "points_coresets.csv", point_peers.CORESET_KEYS, point_peers.CORESET_VALUES)
    row = {"data_set": "A", "k": 10, "n": 1000, "d": 2, "size": 100}
    made.add(peer="probi", seconds=0.5, found=1.02, at_random=1.01, **row)
    made.add(peer="coreax, kernel herding", seconds=5.0, found=1.01, at_random=1.02, **row)
    made.add(peer="uniform sample", seconds=0.1, found=1.1, at_random=1.1, **row)
    text = point_peers_page._coresets(tmp_path).partition("A lower distortion")[2]
    assert "- A: coreax, kernel herding, for found centers, 10 times the seconds." in text
    assert "uniform" not in text


def test_other_load_does_not_count_this_process():
    load = OtherLoad()
    sum(i * i for i in range(3_000_000))
    cores = load.cores()
    assert cores is None or cores >= 0
