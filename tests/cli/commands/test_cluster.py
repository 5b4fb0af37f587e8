"""probi cluster: files in, a folder of results out; the same as the library called directly."""

import errno
import gzip
import json
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from commands import error_line, files_of, probi
from numpy.testing import assert_allclose, assert_array_equal
from table_files import as_nodes, columns_of, csv_text, read_nodes, some_nodes, write

import probi as library
from probi import Summary, _files, expected_cost, expected_distances, solve
from probi._notes import rounded

N = 3000  # more than the audit sample holds, so that costs have an error
PLAIN = some_nodes("long", n=N)
COLUMNS = columns_of(PLAIN, "long")
NODES = as_nodes(PLAIN)
SETTINGS = ("--layout", "long", "--size", "40", "--n-init", "2", "--seed", "5")


@pytest.fixture(autouse=True)
def no_report(request, monkeypatch):
    """The report takes longest, and has tests of its own; where it matters a test asks for it by a mark."""
    if "report" not in request.node.name:
        monkeypatch.setattr("probi.cli.results.write_run_report", lambda outcome, path: None)


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "x.parquet", COLUMNS, step=1000)


def summary_of(nodes, k=3, **options):
    summary = Summary(k, **{"size": 40, "random_state": 5} | options)
    summary.update(nodes)
    return summary


def centers_in(folder, k=None):
    table = pq.read_table(folder / "centers.parquet")
    if k is not None:
        table = table.filter(pa.compute.field("n_clusters") == k)
    return np.column_stack([table[name] for name in ("x0", "x1")])


# -- against the library ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_same_as_in_the_library(path, tmp_path, capsys):
    out = tmp_path / "out"
    values = probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "-o", out, "--json").json
    summary = summary_of(NODES)
    assert summary.n_retained < summary.n_nodes  # else the cost would be exact
    result = solve(summary, 3, n_init=2, random_state=5)
    assert_array_equal(centers_in(out), result.centers)
    evaluation = summary.evaluate(result.centers)
    assert (values["cost"], values["standard_error"]) == (evaluation.cost, evaluation.standard_error)
    assert values["standard_error"] > 0
    assert (values["lower_bound"], values["spread_cost"]) == (evaluation.lower_bound, evaluation.spread_cost)
    (solution,) = values["solutions"]
    assert_allclose(solution["exact_cost"], expected_cost(NODES, result.centers), rtol=1e-12)
    assert abs(solution["exact_cost"] - values["cost"]) < 6 * values["standard_error"]
    assert json.loads((out / "result.json").read_text()) == values
    # The file of the summary is the summary, but for what the command line knows about it.
    saved = Summary.load(out / "summary.probi")
    assert saved.about.pop("space") == {"features": ["x0", "x1"], "lonlat": None, "scale": None}
    assert saved.about.pop("reading")["layout"] == "long"
    assert saved.to_bytes() == summary.sealed().to_bytes()


def test_result_json_says_how_it_came_about(path, tmp_path, capsys):
    values = probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "-o", tmp_path / "out", "--json").json
    counts = {"rows": len(COLUMNS["x0"]), "nodes": N, "used": len(COLUMNS["x0"])}
    assert values["counts"] == counts | {
        "missing": 0,
        "rejected": 0,
        "incomplete": 0,
        "left_out": {},
        "normalized": 0,
        "absent": 0,
    }
    assert values["n_nodes"] == N
    assert (values["seed"], values["n_clusters"], values["features"]) == (5, 3, ["x0", "x1"])
    assert values["parameters"]["layout"] == "long"
    assert values["parameters"]["files"] == [str(path)]
    assert values["versions"]["probi"] == library.__version__
    assert set(values["versions"]) == {"probi", "python", "numpy", "numba", "pyarrow"}
    assert set(values["timings"]) == {"read", "solve", "assign"}
    assert values["peak_memory_mb"] > 10
    clusters = values["solutions"][0]["clusters"]
    assert sum(cluster["n_nodes"] for cluster in clusters) == N
    assert [list(cluster["center"]) for cluster in clusters] == [["x0", "x1"]] * 3
    assert_allclose(sum(cluster["mass"] for cluster in clusters), NODES.mass.sum(), rtol=1e-9)
    assert values["command"].startswith("probi")


def test_the_assignment_in_the_order_of_the_rows(path, tmp_path, capsys):
    out = tmp_path / "out"
    probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "-o", out, "-q")
    table, centers = pq.read_table(out / "assignment.parquet"), centers_in(out)
    assert table.column_names == [
        "row", "id", "cluster", "expected_distance", "probability", "next_cluster", "next_distance", "margin",
        "second", "second_probability",
    ]  # fmt: skip
    assert_array_equal(table["cluster"], library.assign(NODES, centers))
    assert_array_equal(table["id"], NODES.ids)
    assert_array_equal(table["row"], NODES.offsets[:-1] + 1)
    ordered = np.sort(expected_distances(NODES, centers) / NODES.total_probabilities[:, None], axis=1)
    assert_allclose(table["expected_distance"], ordered[:, 0], rtol=1e-12)
    assert_allclose(table["next_distance"], ordered[:, 1], rtol=1e-12)
    assert_allclose(table["margin"], 1.0 - ordered[:, 0] / ordered[:, 1], rtol=1e-9)
    members = library.memberships(NODES, centers)
    every = np.arange(len(NODES))
    assert_allclose(table["probability"], members[every, table["cluster"]], rtol=1e-12)
    assert_allclose(table["second_probability"], members[every, table["second"]], rtol=1e-12)
    assert (table["second"].to_numpy() != table["cluster"].to_numpy()).all()


@pytest.mark.slow
def test_ids_of_two_columns_join_back(tmp_path, capsys):
    columns = {"day": [id % 9 for id in COLUMNS["id"]], "who": [f"w{id}" for id in COLUMNS["id"]], **COLUMNS}
    del columns["id"]
    path, out = write(tmp_path / "x.csv", columns), tmp_path / "out"
    assert probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "--id", "day,who", "-o", out, "-q").code == 0
    keys = ["day", "who"]
    table = pq.read_table(out / "assignment.parquet")
    joined = pacsv.read_csv(path).append_column("order", pa.array(range(len(columns["x0"])))).join(table, keys)
    joined = joined.sort_by("order")
    expected = np.repeat(library.assign(NODES, centers_in(out)), np.diff(NODES.offsets))
    assert_array_equal(joined["cluster"], expected)


def test_centers_as_csv_are_those_as_parquet(path, tmp_path, capsys):
    probi(capsys, "cluster", path, "-k", "2,3", *SETTINGS, "-o", tmp_path / "out", "-q")
    as_parquet = pq.read_table(tmp_path / "out" / "centers.parquet").replace_schema_metadata()
    assert pacsv.read_csv(tmp_path / "out" / "centers.csv").equals(as_parquet)
    assert as_parquet.column_names == [
        "n_clusters", "cluster", "x0", "x1", "cluster_mass", "cluster_cost", "cluster_spread",
        "representative", "representative_cost",
    ]  # fmt: skip
    chosen = as_parquet.slice(2)  # the solution for three clusters
    medians, _ = library.one_medians(NODES, tol=1e-2)
    labels = library.assign(NODES, np.column_stack([chosen["x0"], chosen["x1"]]))
    assert set(chosen["representative"].to_pylist()) <= set(NODES.ids.tolist())
    for c, id in enumerate(chosen["representative"].to_pylist()):
        assert labels[NODES.ids == id] == [c]
    solution = json.loads((tmp_path / "out" / "result.json").read_text())["solutions"][1]
    assert [cluster["representative"]["cost"] for cluster in solution["clusters"]] == chosen[
        "representative_cost"
    ].to_pylist()
    for cluster in solution["clusters"]:
        (at,) = np.flatnonzero(NODES.ids == int(cluster["representative"]["id"]))
        assert_allclose(list(cluster["representative"]["median"].values()), medians[at], rtol=1e-6)
    exact = library.expected_cost(NODES, [list(c["representative"]["median"].values()) for c in solution["clusters"]])
    assert abs(solution["representatives_cost"] - exact) <= 4 * solution["representatives_standard_error"]


def test_several_files_are_named_in_the_assignment(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    a = write(tmp_path / "in" / "a.csv", {"x": [0.0, 1.0, 9.0]})
    b = write(tmp_path / "in" / "b.csv", {"x": [8.0, 0.5]})
    assert probi(capsys, "cluster", tmp_path / "in", "-k", 2, "-o", tmp_path / "out", "-q").code == 0
    table = pq.read_table(tmp_path / "out" / "assignment.parquet")
    assert table["file"].to_pylist() == [str(a)] * 3 + [str(b)] * 2
    assert table["row"].to_pylist() == [1, 2, 3, 1, 2]
    assert table["cluster"].to_pylist() == [0, 0, 1, 1, 0]


def test_results_among_the_data_are_not_read_in_the_second_pass(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.csv", {"x": [0.0, "red", 1.0, *[9.0] * 8]})
    ran = probi(capsys, "cluster", tmp_path / "in", "-k", 2, "-o", tmp_path / "in" / "out", "--on-bad", "skip", "-q")
    assert ran.code == 0, ran.err
    assert pq.read_table(tmp_path / "in" / "out" / "assignment.parquet")["row"].to_pylist() == [1, *range(3, 12)]


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--no-assign",)])
def test_results_among_the_data_are_not_read_the_next_time(tmp_path, capsys, options):
    write(tmp_path / "a.csv", {"x": [0.0, 1.0, 9.0]})
    arguments = ("cluster", tmp_path, "-k", 2, "-o", tmp_path / "out", "-q", *options)
    assert probi(capsys, *arguments).code == 0
    assert "is an input and would be overwritten" in error_line(probi(capsys, *arguments))
    # A file that was named may lie among the results, as that of the demo does.
    assert probi(capsys, "cluster", tmp_path / "a.csv", "-k", 2, "-o", tmp_path, "-q").code == 0


# -- rows that are left out -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["skip-row", "skip-node"])
def test_every_row_is_in_the_result_or_among_the_rejected(tmp_path, capsys, missing):
    columns = {name: list(values) for name, values in COLUMNS.items()}
    for row in (3, 50, 51, 400):
        columns["x0"][row] = None
    for row in (100, 600):
        columns["x1"][row] = float("inf")
    path, out = write(tmp_path / "x.csv", columns), tmp_path / "out"
    ran = probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "-o", out, "--missing", missing, "--on-bad", "skip")
    values = json.loads((out / "result.json").read_text())
    counts = values["counts"]
    assert counts["rows"] == len(columns["x0"])
    assert counts["rows"] == counts["used"] + counts["missing"] + counts["rejected"]
    rejected = pacsv.read_csv(out / "rejected.csv", parse_options=pacsv.ParseOptions(newlines_in_values=True))
    assert len(rejected) == counts["missing"] + counts["rejected"]
    assert {4, 51, 52, 401, 101, 601} <= set(rejected["row"].to_pylist())
    assert rejected["line"].to_pylist() == [row + 1 for row in rejected["row"].to_pylist()]
    assert set(rejected["file"].to_pylist()) == {str(path)}
    assert (counts["missing"] == 4) == (missing == "skip-row")
    assigned = pq.read_table(out / "assignment.parquet")
    assert len(assigned) == counts["nodes"] == values["n_nodes"]
    nodes = read_nodes(path, layout="long", missing=missing, on_bad="skip")
    assert nodes.n_realizations == counts["used"]
    assert_allclose(values["solutions"][0]["exact_cost"], expected_cost(nodes, centers_in(out)), rtol=1e-12)
    assert sum(counts["left_out"].values()) == len(rejected)
    assert set(counts["left_out"]) == set(rejected["kind"].to_pylist())
    (said,) = [line for line in ran.err.splitlines() if line.startswith(f"Left out {len(rejected)} of ")]
    assert "4 no value in column 'x0'" in said
    assert "2 infinite in column 'x1'" in said
    assert said.endswith(f"See {out / 'rejected.csv'}, which lists the first 1,000 of each kind.")


def test_rejected_rows_of_an_earlier_run_do_not_stay(tmp_path, capsys):
    path, out = write(tmp_path / "x.csv", {"x": [0.0, "red", 1.0, *[9.0] * 8]}), tmp_path / "out"
    assert probi(capsys, "cluster", path, "-k", 2, "-o", out, "--on-bad", "skip", "-q").code == 0
    assert "red" in (out / "rejected.csv").read_text()
    write(path, {"x": [0.0, 1.0, 9.0]})
    assert probi(capsys, "cluster", path, "-k", 2, "-o", out, "-q").code == 0
    assert not (out / "rejected.csv").exists()


def test_an_incomplete_group_is_told(tmp_path, capsys):
    path, out = write(tmp_path / "x.csv", {"x": [0.0, 1.0, 9.0, 9.5, 5.0]}), tmp_path / "out"
    ran = probi(capsys, "cluster", path, "-k", 2, "-o", out, "--group-size", 2)
    assert "Left out 1 of 5 rows: 1 at the end of a file, too few for a group." in ran.err
    assert json.loads((out / "result.json").read_text())["counts"]["incomplete"] == 1
    assert len((out / "rejected.csv").read_text().splitlines()) == 2


# -- several numbers of clusters --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_several_numbers_of_clusters_from_one_summary(path, tmp_path, capsys):
    out = tmp_path / "out"
    ran = probi(capsys, "cluster", path, "-k", "2:5", *SETTINGS, "-o", out)
    values = json.loads((out / "result.json").read_text())
    assert [solution["n_clusters"] for solution in values["solutions"]] == [2, 3, 4, 5]
    summary = summary_of(NODES, 5)
    table = pq.read_table(out / "assignment.parquet")
    for solution in values["solutions"]:
        k = solution["n_clusters"]
        result = solve(summary, k, n_init=2, random_state=5)
        assert solution["cost"] == result.cost
        assert_array_equal(centers_in(out, k), result.centers)
        assert_array_equal(table[f"cluster_{k}"], library.assign(NODES, result.centers))
    assert "cluster" not in table.column_names
    choice = library.choose_k(summary, range(2, 6), n_init=2, random_state=5)
    assert values["recommended"] == choice.recommended
    assert values["reason"] == choice.reason
    assert [solution["overlap"] for solution in values["solutions"]] == choice.overlap.tolist()
    assert [solution["stability"] for solution in values["solutions"]] == choice.stability.tolist()
    assert [solution["silhouette"] for solution in values["solutions"]] == choice.silhouette.tolist()
    which, k = ("largest", 5) if choice.recommended is None else ("recommended", choice.recommended)
    said = f"{choice.reason}\nDetails are for the {which} k, {k}; for another, run again with only that -k.\n"
    assert f"{said}{k} clusters, cost " in ran.out
    assert values["n_clusters"] == k
    assert values["details_of"] == f"the {which} solution; all are in solutions"
    assert values["cost"] == values["solutions"][k - 2]["cost"]


@pytest.mark.slow
def test_details_and_report_are_of_the_recommended_number(tmp_path, capsys):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 2)) + np.repeat([[0, 0], [20, 0], [0, 20]], 100, axis=0)
    np.save(tmp_path / "points.npy", points)
    np.save(tmp_path / "noise.npy", rng.uniform(size=(300, 2)))
    ran = probi(capsys, "cluster", tmp_path / "points.npy", "-k", "1:5", "-o", tmp_path / "out")
    assert "Details are for the recommended k, 3;" in ran.out
    assert "3 clusters, cost " in ran.out
    values = json.loads((tmp_path / "out/result.json").read_text())
    assert values["recommended"] == values["n_clusters"] == 3
    assert [solution["overlap"] is None for solution in values["solutions"]] == [True, False, False, False, False]
    assert values["reason"] in (tmp_path / "out/report.html").read_text(encoding="utf-8")
    ran = probi(capsys, "cluster", tmp_path / "noise.npy", "-k", "2:5")
    assert "No clear number: " in ran.out
    assert "Details are for the largest k, 5;" in ran.out


@pytest.mark.slow
def test_outliers_are_left_out_and_labeled(tmp_path, capsys):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 2)) + np.repeat([[0, 0], [20, 0], [0, 20]], 100, axis=0)
    points = np.vstack([points, [[100, 100], [-90, 40], [60, -70]]])
    np.save(tmp_path / "points.npy", points)
    for given in (["--outliers", "0.01"], ["--outlier-distance", "15"]):
        ran = probi(capsys, "cluster", tmp_path / "points.npy", "-k", "3", *given, "-o", tmp_path / "out")
        assert "Left out as outliers: 0.99% of the mass, farther than " in ran.out
        labels = pq.read_table(tmp_path / "out/assignment.parquet")["cluster"].to_numpy()
        assert_array_equal(np.flatnonzero(labels == -1), [300, 301, 302])
        (solution,) = json.loads((tmp_path / "out/result.json").read_text())["solutions"]
        assert solution["n_outliers"] == 3
        assert sum(cluster["n_nodes"] for cluster in solution["clusters"]) == 300
        inliers = library.Nodes.from_points(points[:300])
        centers = centers_in(tmp_path / "out", 3)
        assert_allclose(solution["exact_cost"], expected_cost(inliers, centers), rtol=1e-12)
        again = probi(capsys, "solve", tmp_path / "out/summary.probi", "-k", "3", *given)
        assert "Left out as outliers: 0.99% of the mass" in again.out
        # Other commands know the distance by the folder.
        of_folder = ("--centers", tmp_path / "out", "--json")
        assigned = probi(capsys, "assign", tmp_path / "points.npy", *of_folder, "-o", tmp_path / "again.csv").json
        assert assigned["n_outliers"] == 3
        assert_allclose(assigned["cost"], solution["exact_cost"], rtol=1e-12)
        for name in ("points.npy", "out/summary.probi"):
            evaluated = probi(capsys, "evaluate", tmp_path / name, *of_folder).json
            assert_allclose(evaluated["cost"], solution["exact_cost"], rtol=1e-9)
    ran = probi(capsys, "cluster", tmp_path / "points.npy", "-k", "3", "--outliers", "2")
    assert error_line(ran) == "--outliers is 2.0, but must be a number of at least 0 and below 1."


@pytest.mark.parametrize(
    ("text", "ks"), [("4", [4]), ("2,4", [2, 4]), ("4,2,2", [2, 4]), ("2:4", [2, 3, 4]), ("1:5:2,2", [1, 2, 3, 5])]
)
def test_ways_to_say_k(tmp_path, capsys, text, ks):
    path = write(tmp_path / "x.csv", {"x": [0.0, 1.0, 3.0, 9.0, 11.0, 20.0]})
    values = probi(capsys, "cluster", path, "-k", text, "--json", "-q").json
    assert [solution["n_clusters"] for solution in values["solutions"]] == ks


def test_very_many_numbers_of_clusters_are_refused_at_once(tmp_path, capsys):
    path = write(tmp_path / "x.csv", {"x": [0.0, 1.0]})
    ran = probi(capsys, "cluster", path, "-k", "2:3000000000")
    assert error_line(ran) == "-k 2:3000000000 asks for 2,999,999,999 numbers of clusters; use at most 1,000."


@pytest.mark.parametrize("text", ["0", "-1", "two", "3:2", "1:2:3:4", "", "2,,3", "1:5:0", "2.5"])
def test_what_is_no_number_of_clusters(path, capsys, text):
    said = error_line(probi(capsys, "cluster", path, f"-k={text}", "-q"))
    assert said.startswith("-k must be a number, or several such as 5,10,20 or 2:30, got ")


# -- spaces -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["standard", "robust"])
def test_scales(tmp_path, capsys, scale):
    columns = COLUMNS | {"x1": [1000 * x for x in COLUMNS["x1"]]}
    path, out = write(tmp_path / "x.parquet", columns), tmp_path / "out"
    values = probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "--scale", scale, "-o", out, "--json").json
    points = np.column_stack([columns["x0"], columns["x1"]])
    if scale == "standard":
        expected = points.std(axis=0)
    else:
        expected = np.subtract(*np.percentile(points, [75, 25], axis=0)) / 1.3489795
    scales = np.array(list(values["scale"].values()))
    assert list(values["scale"]) == ["x0", "x1"]
    assert_allclose(scales, expected, rtol=1e-9)
    scaled = NODES.with_points(points / scales)
    result = solve(summary_of(scaled), 3, n_init=2, random_state=5)
    assert_allclose(centers_in(out), result.centers * scales, rtol=1e-12)
    assert values["cost"] == pytest.approx(result.cost, rel=1e-9)
    assert_array_equal(pq.read_table(out / "assignment.parquet")["cluster"], library.assign(scaled, result.centers))
    # The same scales, told: the same centers.
    again = tmp_path / "again"
    arguments = ("cluster", path, "-k", 3, *SETTINGS, "--scale", out / "result.json", "-o", again, "-q")
    assert probi(capsys, *arguments).code == 0
    assert files_of(again, "result.json") == files_of(out, "result.json")


def test_longitude_and_latitude(tmp_path, capsys):
    """A node on each side of the date line is one cluster; centers are degrees, costs kilometres."""
    columns = {"id": range(4), "lon": [179.9, -179.9, 20.0, 20.2], "lat": [10.0, 10.0, -30.0, -30.0]}
    path, out = write(tmp_path / "x.csv", columns), tmp_path / "out"
    ran = probi(capsys, "cluster", path, "-k", 2, "--lonlat", "lon,lat", "-o", out)
    table = pq.read_table(out / "assignment.parquet")
    assert table["cluster"].to_pylist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    values = json.loads((out / "result.json").read_text())
    assert values["unit"] == "km"
    assert values["lonlat"] == ["lon", "lat"]
    assert " km" in ran.out.splitlines()[0]
    apart = 0.2 * 111.195 * (np.cos(np.radians(10)) + np.cos(np.radians(30)))
    assert values["cost"] == pytest.approx(apart, rel=1e-4)
    for cluster in values["solutions"][0]["clusters"]:
        lon, lat = cluster["center"].values()
        near = [abs(abs(lon) - 180) <= 0.11 and abs(lat - 10) < 0.01, 19.99 <= lon <= 20.21 and abs(lat + 30) < 0.01]
        assert any(near)


# -- pipes, formats, streams ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_standard_input_gz_and_a_file_are_the_same(path, tmp_path, capsys, monkeypatch):
    data = csv_text(COLUMNS).encode()
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(data))
    outs = {}
    for name, stdin in (("-", data), (tmp_path / "x.csv.gz", None), (path, None), ("-", gzip.compress(data))):
        out = tmp_path / f"out{len(outs)}"
        ran = probi(
            capsys, "cluster", name, "-k", 3, *SETTINGS, "-o", out, stdin=stdin, monkeypatch=monkeypatch
        )  # fmt: skip
        assert ran.code == 0, ran.err
        assert ("a stream cannot be read twice" in ran.err) == (name == "-")
        assert (out / "assignment.parquet").exists() == (name != "-")
        outs[out.name] = files_of(out, "result.json", "assignment.parquet")
    first, *others = outs.values()
    assert set(first) == {"centers.csv", "centers.parquet", "summary.probi"}
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", ["assignment.parquet", "centers.parquet", "result.json", "summary.probi"])
def test_what_was_found_is_shown_also_on_a_full_disk(path, tmp_path, capsys, monkeypatch, name):
    out, flush = tmp_path / "out", _files._flush
    expected = probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "-q", "--json").json

    def full(temporary):
        if name in temporary.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(temporary)

    monkeypatch.setattr(_files, "_flush", full)
    checkpoint = tmp_path / "run.probi"
    ran = probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "-q", "--json", "-o", out, "--checkpoint", checkpoint)
    assert (ran.code, ran.err) == (1, f"probi: {out / name}: No space left on device.\n")
    assert json.loads(ran.out)["cost"] == expected["cost"]
    assert checkpoint.exists()
    if name == "summary.probi":  # the largest comes last
        assert sorted(files_of(out)) == ["assignment.parquet", "centers.csv", "centers.parquet", "result.json"]


@pytest.mark.slow
def test_results_on_standard_output_and_talk_on_standard_error(path, tmp_path, capsys):
    out = tmp_path / "out"
    ran = probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "-o", out)
    assert ran.err.splitlines() == [
        f"{path}: layout long (rows of a node share id); 2 features (x0, x1); probability probability; weight weight.",
        f"Results are in {out}; summary.probi has {(out / 'summary.probi').stat().st_size / 1e3:.0f} kB.",
    ]  # fmt: skip
    head, names, _, *clusters = ran.out.splitlines()
    # The exact cost first, where the second pass has computed it.
    values = json.loads((out / "result.json").read_text())
    assert values["exact_cost"] == values["solutions"][0]["exact_cost"] != values["cost"]
    estimate = f"{values['cost']:,.6g} ± {rounded(values['standard_error']):,g}"
    assert head.startswith(f"3 clusters, cost {values['exact_cost']:,.6g} (estimate of the summary: {estimate}); ")
    alone = probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "-q").out.splitlines()[0]
    assert alone.startswith(f"3 clusters, cost {estimate}; ")
    assert names.split() == ["cluster", "mass", "to", "center", "spread", "representative", "x0", "x1"]
    assert [line.split()[0] for line in clusters] == ["0", "1", "2"]
    quiet = probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "-o", out, "-q")
    assert quiet == (0, ran.out, "")
    as_json = probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "-o", out, "--json")
    assert as_json.err == ran.err
    assert as_json.json["n_clusters"] == 3


def test_without_a_folder_nothing_is_written(path, tmp_path, capsys):
    assert probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "-q").code == 0
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_without_an_assignment(path, tmp_path, capsys):
    values = probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "-o", tmp_path / "out", "--no-assign", "--json").json
    assert not (tmp_path / "out" / "assignment.parquet").exists()
    assert values["solutions"][0]["exact_cost"] is None
    assert "assign" not in values["timings"]


@pytest.mark.slow
def test_two_runs_write_the_same_bytes_the_report_too(path, tmp_path, capsys):
    for name in ("a", "b"):
        assert probi(capsys, "cluster", path, "-k", "2,3", *SETTINGS, "-o", tmp_path / name, "-q").code == 0
    first, second = files_of(tmp_path / "a", "result.json"), files_of(tmp_path / "b", "result.json")
    assert set(first) == {"assignment.parquet", "centers.csv", "centers.parquet", "report.html", "summary.probi"}
    assert first == second
    a, b = (json.loads((tmp_path / name / "result.json").read_text()) for name in "ab")
    for values in (a, b):
        del values["timings"], values["peak_memory_mb"]
    assert a == b


@pytest.mark.slow
def test_the_report_says_of_what_and_has_the_exact_cost_first(path, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["probi", "cluster", "x.parquet", "-k", "2,3"])
    values = probi(capsys, "cluster", path, "-k", "2,3", *SETTINGS, "-o", out, "--json").json
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<h1>2 to 3 clusters of 3,000 nodes from x.parquet</h1>" in page
    exact = values["solutions"][-1]["exact_cost"]
    assert f"3 centers with an expected cost of {exact:,.6g} (exact)." in page
    assert f"the estimate of the summary was {values['cost']:,.6g} ± {rounded(values['standard_error']):,g}" in page
    assert "the slider of the plot shows the others, and probi solve summary.probi -k K makes a report of one" in page
    assert f"probi cluster x.parquet -k 2,3 --seed {values['seed']}<" in page


@pytest.mark.slow
def test_another_seed_is_another_run(path, tmp_path, capsys):
    for seed in (5, 6):
        out = tmp_path / str(seed)
        probi(capsys, "cluster", path, "-k", 3, *SETTINGS[:-1], seed, "-o", out, "-q", "--no-assign")
    assert files_of(tmp_path / "5")["summary.probi"] != files_of(tmp_path / "6")["summary.probi"]


def test_a_folder_that_is_a_file(path, capsys):
    said = error_line(probi(capsys, "cluster", path, "-k", 2, "-o", path, "-q"))
    assert said == f"{path} is a file, but the results need a folder. Use another name: -o."
    said = error_line(probi(capsys, "cluster", path, "-k", 2, "-o", path / "out", "-q"))
    assert str(path) in said


def test_a_feature_called_like_a_column_of_the_results(tmp_path, capsys):
    path = write(tmp_path / "x.csv", {"cluster": [0.0, 1.0, 9.0], "x": [1.0, 2.0, 3.0]})
    assert "A feature has one of the names" in error_line(
        probi(capsys, "cluster", path, "-k", 2, "-o", tmp_path / "out", "-q")
    )


def test_ids_called_like_columns_of_the_results_are_renamed(tmp_path, capsys):
    columns = {"row": list("aab"), "cluster": list("xxy"), "x": [1.0, 2.0, 9.0], "p": [0.5, 0.5, 1.0]}
    path, out = write(tmp_path / "x.csv", columns), tmp_path / "out"
    arguments = ("-k", 2, "-o", out, "-q", "--layout", "long", "--id", "row,cluster")
    assert probi(capsys, "cluster", path, *arguments).code == 0
    table = pq.read_table(out / "assignment.parquet")
    assert table["row_"].to_pylist() == ["a", "b"]
    assert table["cluster_"].to_pylist() == ["x", "y"]
    assert table["row"].to_pylist() == [1, 3]


# -- names of ids, and files of earlier runs ------------------------------------------------------------------------


@pytest.mark.slow
def test_a_column_of_ids_keeps_its_name(tmp_path, capsys):
    columns = {"sensor" if name == "id" else name: values for name, values in COLUMNS.items()}
    path = write(tmp_path / "x.parquet", columns)
    settings = (*SETTINGS, "--id", "sensor")
    probi(capsys, "cluster", path, "-k", 3, *settings, "-o", tmp_path / "out")
    found = pq.read_table(tmp_path / "out" / "assignment.parquet")
    assert found["sensor"].to_pylist() == NODES.ids.tolist()
    assert "id" not in found.column_names
    for to in ("long", "nested"):
        probi(
            capsys, "convert", path, "--layout", "long", "--id", "sensor", "--to", to, "-o", tmp_path / f"{to}.parquet"
        )
        assert "sensor" in pq.read_schema(tmp_path / f"{to}.parquet").names


@pytest.mark.slow
def test_an_assignment_that_does_not_fit_the_centers_is_not_left(path, tmp_path, capsys):
    out = tmp_path / "out"
    probi(capsys, "cluster", path, "-k", 3, *SETTINGS, "-o", out)
    assert (out / "assignment.parquet").is_file()
    probi(capsys, "cluster", path, "-k", 2, *SETTINGS, "-o", out, "--no-assign")
    assert not (out / "assignment.parquet").exists()


@pytest.mark.slow
def test_nodes_are_thinned_as_they_are_read(tmp_path, capsys):
    X = np.random.default_rng(0).normal(size=(4000, 2))
    path = write(tmp_path / "x.parquet", {"x0": X[:, 0], "x1": X[:, 1]})
    settings = ("cluster", path, "-k", 2, "--layout", "groups", "--group-size", 100, "--seed", 3)
    thin = probi(capsys, *settings, "--max-realizations", 8, "-o", tmp_path / "out", "--json").json
    summary = Summary.load(tmp_path / "out" / "summary.probi")
    assert np.diff(summary.coreset().offsets).max() <= 8
    assert thin["thinning_bound"] == summary.thinning_bound > 0
    assert thin["parameters"]["max_realizations"] == 8
    # The second pass reads all realizations again: its cost is exact, and near what was said.
    (solution,) = thin["solutions"]
    assert abs(solution["exact_cost"] - thin["cost"]) < 3 * thin["standard_error"]
    told = probi(capsys, "info", tmp_path / "out" / "summary.probi").out
    assert "max realizations: 8" in told
    assert "thinning bound: " in told


# -- presets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ("--preset", "theory"),
            "--preset theory needs --epsilon and --delta, the largest error and how often it may be exceeded: for "
            "example --preset theory --epsilon 0.2 --delta 0.1.",
        ),
        (("--epsilon", 0.1), "--epsilon and --delta need --preset theory: only it gives a guarantee."),
        (
            ("--preset", "theory", "--size", 100),
            "With --preset theory the size follows from --epsilon and --delta: do not give one.",
        ),
        (
            ("--preset", "theory", "--epsilon", 2, "--delta", 0.1),
            "--epsilon is 2.0, but must lie between 0 and 1, and not below 1e-12.",
        ),
    ],
)
def test_errors_of_a_preset_name_options(path, capsys, options, says):
    assert error_line(probi(capsys, "cluster", path, "-k", 2, *options)) == says
