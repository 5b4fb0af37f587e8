"""Records go on where they were; pages hold the numbers of the records and nothing else."""

import json
import re

import numpy as np
import pytest

from benchmarks import billion
from experiments import growth, hostile, pages, paper, peers, quality, readings
from experiments.datasets import DataSet
from experiments.records import Records, read, write_machine
from probi.coreset import paper as paper_coreset


def test_what_was_recorded_is_not_done_again(tmp_path):
    records = Records(tmp_path / "a.csv", ("k", "run"), ("cost",))
    records.add(k=2, run=0, cost=1.5)
    assert records.has(k=2, run=0)
    assert not records.has(k=2, run=1)
    again = Records(tmp_path / "a.csv", ("k", "run"), ("cost",))
    assert again.has(k=2, run=0)
    again.add(k=2, run=1, cost=float("nan"))
    assert [row["run"] for row in read(tmp_path / "a.csv")] == [0, 1]
    assert read(tmp_path / "a.csv")[0] == {"k": 2, "run": 0, "cost": 1.5}


def test_the_machine_is_said_without_names_and_paths(tmp_path):
    write_machine(tmp_path)
    text = (tmp_path / "machine.json").read_text()
    assert {"cores", "processor", "memory_gb", "python", "versions", "date"} <= set(json.loads(text))
    assert "/" not in re.sub(r'"processor": ".*"', "", text)


TINY = DataSet("Covertype", 2004, 3, (2,), "It is nowhere.", lambda data: None, lambda start, stop: tiny(start, stop))


def tiny(start, stop):
    rng = np.random.default_rng(0)
    rows = 20.0 * rng.integers(3, size=(201, 1)).repeat(10, axis=0)[:2004] + rng.normal(size=(2004, 3))
    return rows[start:stop].astype(np.float32)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A small experiment of each kind, run in two goes."""
    folder = tmp_path_factory.mktemp("results")
    said = []
    for runs in (1, 2):
        records = Records(folder / "paper_runs.csv", paper.KEYS, paper.VALUES)
        paper.run(TINY, folder, folder / "cache", records, runs, True, said.append)
    write_machine(folder)
    return folder, said


@pytest.mark.process
def test_the_paper_run_goes_on_and_adds_up(results):
    folder, said = results
    rows = read(folder / "paper_runs.csv")
    assert len(said) == 6
    assert all(text.endswith("1 runs") for text in said)
    keys = [tuple(row[name] for name in paper.KEYS) for row in rows]
    assert len(set(keys)) == len(keys) == 3 * 2
    for row in rows:
        assert row["stand_in"] is True
        assert 0 < row["spread_cost"] < row["full_cost"]
        if row["method"] == "default":
            assert abs(row["summary_cost"] / row["full_cost"] - 1) < 0.1
            assert row["peak_mb"] > 10


@pytest.mark.process
def test_the_page_of_the_paper(results):
    folder, _ = results
    text = pages.paper_page(folder)
    rows = read(folder / "paper_runs.csv")
    mean = np.mean([r["full_cost"] for r in rows if r["k"] == 2 and r["method"] == "default"])
    assert pages.number(float(mean), 4) in text
    assert "## Covertype (stand-in)" in text
    assert "| paper |" not in text  # the paper's numbers do not stand beside a stand-in's
    assert (folder / "paper_covertype_stand_in.svg").is_file()


@pytest.mark.slow
def test_the_papers_numbers_stand_beside_real_data(tmp_path):
    records = Records(tmp_path / "paper_runs.csv", paper.KEYS, paper.VALUES)
    for method in ("default", "paper", "plloyd"):
        for seed in range(2):
            values = {"summary_cost": 4e7, "full_cost": 4.2e7 + seed, "spread_cost": 1e7}
            records.add(data_set="Covertype", stand_in=False, k=10, method=method, run=seed, **values)
    text = pages.paper_page(tmp_path)
    their_mean = next(
        r for r in read(pages.PAPER) if (r["statistic"], r["data_set"], r["k"]) == ("mean", "Covertype", 10)
    )
    line = next(line for line in text.splitlines() if line.startswith("| 10 | paper |"))
    assert pages.number(their_mean["full_cost"]) in line
    assert f"{their_mean['full_cost'] / their_mean['plloyd_full_cost']:.3g}" in line
    assert text.count("| 10 | paper |") == 3  # mean, median, variation


@pytest.mark.slow
@pytest.mark.parametrize(("cost", "says"), [(5.75e7, "does"), (4.4e7, "does not")])
def test_what_does_not_reproduce_is_said(tmp_path, monkeypatch, cost, says):
    monkeypatch.setattr(pages, "paper_pictures", lambda *_: [])
    records = Records(tmp_path / "paper_runs.csv", paper.KEYS, paper.VALUES)
    for method, full in (("paper", cost), ("plloyd", 4.35e7)):
        values = {"summary_cost": 4.3e7, "full_cost": full, "spread_cost": 1e7}
        records.add(data_set="Covertype", stand_in=False, k=10, method=method, run=0, **values)
    text = pages.paper_page(tmp_path)
    assert "P-LLOYD++ on all nodes **does** reproduce (up to 1 % apart)" in text
    assert f'The full cost of PROBI with `preset="paper"` **{says}** reproduce' in text
    assert "its summary cost **does not** reproduce (up to 26 % apart)" in text
    assert "What was tried" not in text
    tried = Records(tmp_path / "paper_readings.csv", readings.KEYS, readings.VALUES)
    values = {"summary_cost": 4.1e7, "full_cost": 4.9e7, "n_retained": 777, "mass": 0.5}
    tried.add(data_set="Covertype", stand_in=False, reading="points", k=10, run=0, **values)
    text = pages.paper_page(tmp_path)
    assert f"| {readings.READINGS['points'].said} | 10 | 4.10e7 | 4.90e7 | 777 | 0.50 |" in text
    assert "63 % on Covertype" in text


@pytest.mark.slow
def test_readings_of_the_papers_algorithm():
    import probi

    nodes = probi.Nodes.from_groups(tiny(0, 2000), 10)
    rings_before = paper_coreset.draws, paper_coreset.buckets
    found = {name: readings.once(nodes, reading, 2, 0, size=20) for name, reading in readings.READINGS.items()}
    assert (paper_coreset.draws, paper_coreset.buckets) == rings_before
    summary = probi.Summary(2, 20, "paper", random_state=0)
    summary.update(nodes)
    assert found["buckets"]["n_retained"] == len(summary.coreset())
    assert found["buckets"]["summary_cost"] == probi.solve(summary, 2, random_state=0).coreset_cost
    assert found["buckets"]["mass"] == pytest.approx(1.0)
    assert found["points"]["mass"] == pytest.approx(1.0)
    assert found["points"]["n_retained"] != found["buckets"]["n_retained"]
    assert found["points whole"]["mass"] < found["whole"]["mass"] < 1.0
    assert found["rings"]["mass"] < 1.0


@pytest.mark.slow
def test_the_excess_ratio(tmp_path):
    records = Records(tmp_path / "paper_runs.csv", paper.KEYS, paper.VALUES)
    for method, cost in (("default", 130.0), ("plloyd", 120.0)):
        values = {"summary_cost": 125.0, "full_cost": cost, "spread_cost": 100.0}
        records.add(data_set="Tower", stand_in=False, k=20, method=method, run=0, **values)
    line = next(line for line in pages.paper_page(tmp_path).splitlines() if line.startswith("| 20 | default |"))
    assert "| 1.083 | 1.500 |" in line


@pytest.mark.slow
def test_exponents_of_powers_are_found(tmp_path):
    records = Records(tmp_path / "growth.csv", growth.KEYS, growth.VALUES)
    for n in (10, 100, 1000, 10_000):
        point = growth.BASE | {"n": n}
        values = {"summary_seconds": 1e-6 * n**1.5, "solve_seconds": 2.0, "peak_mb": 10.0 * n**0.25, "base_mb": 5.0}
        records.add(axis="n", **point, **values)
    text = pages.growth_page(tmp_path)
    assert "| exponent | 1.50 | 0.00 | 0.25 |  |" in text or "| exponent | 1.50 | -0.00 | 0.25 |  |" in text
    assert "10^12" in text


@pytest.mark.slow
def test_a_long_stream_is_measured_and_described(tmp_path, monkeypatch):
    monkeypatch.setattr(billion, "CHUNK", 7000)
    measured = billion.measure(300_000)
    assert measured["summary_seconds"] > 0.0
    # Four standard errors: a wrong count of points or chunks would be further off.
    assert abs(measured["estimate"] - measured["exact"]) < 4 * measured["standard_error"] < 0.5 * measured["exact"]
    grown = Records(tmp_path / "growth.csv", growth.KEYS, growth.VALUES)
    for n in (10, 100):
        grown.add(axis="n", **growth.BASE | {"n": n}, **dict.fromkeys(growth.VALUES, 1.0))
    Records(tmp_path / "billion.csv", ("n",), billion.VALUES).add(**measured)
    assert "a stream of 300,000 points in three dimensions" in pages.growth_page(tmp_path)


@pytest.mark.slow
def test_pages_of_quality_and_peers(tmp_path):
    made = Records(tmp_path / "quality.csv", quality.KEYS, quality.VALUES)
    for method, distortion in (("default", 1.01), ("paper", 1.05), ("uniform", 1.2)):
        for seed in range(2):
            made.add(
                data_set="A", stand_in=False, k=20, method=method, size=4000, seed=seed, distortion=distortion + seed
            )
    text = pages.quality_page(tmp_path)
    assert "| 200·k | 1.5100 / 2.0100 | 1.5500 / 2.0500 | 1.7000 / 2.2000 | 2 |" in text
    field = Records(tmp_path / "peers.csv", peers.KEYS, peers.VALUES)
    values = {"peak_mb": 100.0, "data_mb": 50.0}
    field.add(data_set="A", stand_in=True, k=5, peer="probi, default", seconds=0.5, cost=10.0, excess=2.0, **values)
    field.add(data_set="A", stand_in=True, k=5, peer="BICO 0.1.5", seconds=5.0, cost=11.0, excess=3.0, **values)
    field.add(data_set="A", stand_in=True, k=5, peer="Birch", note="out of memory")
    text = pages.peers_page(tmp_path)
    assert "| BICO 0.1.5 | realizations, stream | 5 | 10.0 x | 11 | 1.500 | 100 (50) |" in text
    assert "failed: out of memory" in text
    assert "StreamKM++" in text


@pytest.mark.slow
def test_hostile_data_and_attacked_centers(tmp_path, monkeypatch):
    monkeypatch.setattr(hostile, "N", 9000)
    monkeypatch.setattr(hostile, "MOVES", 10)
    monkeypatch.setattr(hostile, "METHODS", ("default", "uniform"))
    some = {name: made for name, made in hostile.data_sets(tmp_path).items() if name in ("Cauchy", "KDD Cup, rows")}
    monkeypatch.setattr(hostile, "data_sets", lambda data: some)
    said = []
    for _ in range(2):  # the second time there is nothing left to do
        records = Records(tmp_path / "quality_hostile.csv", hostile.KEYS, hostile.VALUES)
        hostile.run(tmp_path, records, 1, said.append)
    assert said == ["hostile data: Cauchy, 2 coresets"]
    for row in read(tmp_path / "quality_hostile.csv"):
        assert row["attacked"] >= max(row["on_coreset"], row["at_random"]) >= 1.0
        assert (row["errors_off"] is None) == (row["method"] == "uniform")
    assert "| Cauchy | 5 | 1." in hostile.hostile_section(tmp_path)


def test_uniform_and_other_coresets_keep_the_mass():
    import probi

    nodes = probi.Nodes.from_groups(tiny(0, 2000), 10)
    for method in ("default", "paper", "uniform"):
        made = quality.coreset(nodes, method, 100, seed=1)
        assert made.mass.sum() == pytest.approx(nodes.mass.sum(), rel=1e-5)
        assert len(made) <= 200


def test_distortion_is_the_worst_of_both_directions():
    import probi

    nodes = probi.Nodes.from_points([[0.0], [2.0]])
    assert quality.distortion(nodes, [([[0.0]], 4.0)]) == 2.0
    assert quality.distortion(nodes, [([[0.0]], 1.0), ([[0.0]], 2.0)]) == 2.0
