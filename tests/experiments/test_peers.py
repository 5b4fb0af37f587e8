"""Peers on one data set: what runs is recorded with its cost, what fails with its reason."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import probi
from experiments import peers
from experiments.peers import Peer, otis_nodes, uji_nodes
from experiments.records import Records, read


def test_otis_is_in_kilometres():
    nodes = otis_nodes()
    assert (len(nodes), nodes.n_realizations, nodes.n_features) == (799, 19_947, 3)
    assert_allclose(np.linalg.norm(nodes.points, axis=1), 6371.0088, rtol=1e-6)
    assert nodes.total_probabilities.max() == pytest.approx(1.0)


def test_uji(data_file):
    nodes = uji_nodes(data_file("ujiindoorloc_train.parquet").parent)
    assert (len(nodes), nodes.n_realizations, nodes.n_features) == (905, 19_937, 520)
    assert nodes.points.min() == -105
    assert nodes.points.max() <= 0


@pytest.mark.process
def test_costs_and_failures_are_recorded(tmp_path, monkeypatch):
    few = otis_nodes()[:200]
    monkeypatch.setattr(peers, "RUNS", 1)
    monkeypatch.setattr(peers, "data_sets", lambda data: {"Otis": (False, 3, lambda: few)})
    chosen = (
        Peer("probi on all data", "nodes", "all", options=(("preset", "default"),)),
        Peer("ELKI UK-means", "equal nodes", "UKMeans"),
        Peer("broken", "nodes", "nothing"),
    )
    monkeypatch.setattr(peers, "ALL_PEERS", chosen)
    said = []
    for _ in range(2):  # the second time there is nothing left to do
        peers.run(tmp_path, Records(tmp_path / "peers.csv", peers.KEYS, peers.VALUES), said.append)
    assert len(said) == 3
    found = {row["peer"]: row for row in read(tmp_path / "peers.csv")}
    result = probi.solve(few, 3, random_state=0)
    assert found["probi on all data"]["cost"] == pytest.approx(result.cost, rel=1e-6)
    assert found["probi on all data"]["excess"] == pytest.approx(result.excess, rel=0.05)
    assert found["probi on all data"]["seconds"] > 0
    assert found["ELKI UK-means"]["note"] == "its loader takes only nodes with the same number of realizations"
    assert "KeyError" in found["broken"]["note"]
