"""Section of the peers' page on systems for plain points, made of the recorded data alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from experiments import point_peers
from experiments.point_peers import CORESET_K, CORESET_PEERS, OURS, POINT_PEERS, PROBI
from experiments.records import read
from experiments.writing import number, table, words

Row = dict[str, Any]
NEARLY = 1.01  # times our cost: as good, for this purpose
SAME = 1e-4  # a cost lower by less than this share is no lower cost


def points_section(folder: Path) -> str:
    """k-means systems, then coresets of the same size; empty without records."""
    rows = read(folder / "points.csv")
    if not rows:
        return ""
    names = list(dict.fromkeys(row["data_set"] for row in rows))
    tables = [_data_set([row for row in rows if row["data_set"] == name]) for name in names]
    return "\n".join([_introduction(), *tables, _where_they_win(rows), _coresets(folder), _machine(folder, rows)])


def _introduction() -> str:
    systems = [[peer.name, ", ".join(peer.requirements) or "–", peer.about] for peer in (PROBI, *POINT_PEERS)]
    return "\n".join(
        [
            "## Systems for points\n",
            words(f"""
                A run of its own, on the machine named at the end of this section. These systems see points, so each
                node is given to them as its center of gravity, made before the clock starts: k-means of those is
                k-means of the nodes, so this is the best they can be given, and a tenth of the numbers that probi
                reads where a node has ten realizations. Imports, compilation and conversion to the precision that a
                system wants are not counted; threads are as they come. Seconds are the best of up to 3 runs, of fewer
                where they take more than {point_peers.MAX_TOTAL_SECONDS} seconds together; costs are means of the
                runs.
            """),
            words("""
                They minimise squares (k-means), probi distances (k-median), so there are two costs. *Cost ÷ probi* is
                the expected distance of their centers on all nodes over that of probi's: above 1, probi is better.
                *Squares, probi ÷ it* is the sum of squared distances of the points to probi's centers over the sum
                to theirs: above 1, they are better at what they are made for. A system that takes too long is
                stopped. Mixture: 600,000 generated points in 10 dimensions, 800 overlapping
                clusters of very different sizes, k = 500. Embeddings: 60,000 generated vectors of unit length in 768
                dimensions, k = 100.
            """),
            table(["system", "package", "as used here"], systems, n_left=3),
        ]
    )


def _data_set(rows: list[Row]) -> str:
    ours = next((row for row in rows if row["peer"] == OURS and row["cost"] is not None), None)
    first = rows[0]
    text = [f"### {first['data_set']}: {first['n']:,} × {first['d']}, k = {first['k']}\n"]
    out = [_cells(row, ours) for row in rows if row["cost"] is not None]
    text.append(
        table(["system", "seconds", "÷ probi", "cost ÷ probi", "squares, probi ÷ it", "runs"], out)
        if out
        else "No system gave an answer.\n"
    )
    failed = [f"- {row['peer']}: {row['note']}." for row in rows if row["cost"] is None]
    return "\n".join([*text, *failed, ""] if failed else text)


def _cells(row: Row, ours: Row | None) -> list[str]:
    ratios = ["–"] * 3
    if ours is not None:
        time, cost, squares = _ratios(row, ours)
        ratios = [f"{time:.2f} x", f"{cost:.4f}", f"{squares:.4f}"]
    return [row["peer"], number(row["seconds"]), *ratios, row["runs"]]


def _ratios(row: Row, ours: Row) -> tuple[float, float, float]:
    return row["seconds"] / ours["seconds"], row["cost"] / ours["cost"], ours["squares"] / row["squares"]


def _where_they_win(rows: list[Row]) -> str:
    """Systems that are faster at nearly our cost, or have a lower cost, or are ahead by squares."""
    faster, cheaper, squares, n_faster, n_all = [], [], [], 0, 0
    ours_by_name = {row["data_set"]: row for row in rows if row["peer"] == OURS and row["cost"] is not None}
    for row in rows:
        ours = ours_by_name.get(row["data_set"])
        if ours is None or row["cost"] is None or row["peer"].startswith(OURS):
            continue
        time, cost, by_squares = _ratios(row, ours)
        line = f"- {row['data_set']}: {row['peer']}, {time:.2f} times the seconds, {cost:.4f} times the cost."
        squares.append(by_squares)
        n_all, n_faster = n_all + 1, n_faster + (time < 1)
        if time < 1 and cost <= NEARLY:
            faster.append(line)
        if cost < 1 - SAME:
            cheaper.append(line)
    if not n_all:
        return ""
    ahead, median = sum(value > 1 for value in squares), np.median(squares)
    return "\n".join(
        [
            "### Where they win\n",
            words(f"""
                Of {n_all} results {n_faster} took less time than probi. Faster, and at most {NEARLY - 1:.0%} above the
                cost of probi's centers:
            """),
            *(faster or ["- none"]),
            "\nA lower cost than probi's, in distances:\n",
            *(cheaper or ["- none"]),
            "",
            words(f"""
                In squares {ahead} of {n_all} results are better than probi's centers, whose squares are {median:.3f}
                times theirs in the median and {number(max(squares))} times at most: for k-means, use one of these.
                All but MiniBatchKMeans need the points in memory; none sees more of a node than its mean, merges
                parts of the data, or estimates the error of its cost.
            """),
        ]
    )


def _coresets(folder: Path) -> str:
    rows = read(folder / "points_coresets.csv")
    if not rows:
        return ""
    out, failed = [], []
    for row in rows:
        name = f"{row['data_set']}, {row['n']:,} × {row['d']}"
        if row["found"] is None:
            failed.append(f"- {name}: {row['peer']}: {row['note']}.")
            continue
        out.append(
            [name, row["peer"], f"{row['size']:,}", number(row["seconds"]),
             f"{row['found']:.4f}", f"{row['at_random']:.4f}"]
        )  # fmt: skip
    about = " ".join(f"{peer.name} ({peer.requirements[0]}): {peer.about}." for peer in CORESET_PEERS)
    return "\n".join(
        [
            "### Coresets of the same size\n",
            words(f"""
                Points (centers of gravity), drawn at random where there are more: herding compares all pairs. The size
                is that of probi's summary for k = {CORESET_K}. Distortion is the larger of cost on the coreset ÷ cost
                on all points and its inverse: for the centers that probi finds on all points, and the worst of
                {point_peers.N_RANDOM} sets of points drawn at random. coreax preserves means of smooth functions, not
                the cost of clusterings; that it may do worse here is no fault of it. {about} What JAX compiles is not
                counted.
            """),
            table(["points", "coreset", "size", "seconds", "distortion, found", "at random"], out, n_left=2),
            *failed,
            "\nA lower distortion than probi's:\n",
            *(_better_coresets(rows) or ["- none"]),
            "",
        ]
    )


def _better_coresets(rows: list[Row]) -> list[str]:
    ours = {row["data_set"]: row for row in rows if row["peer"] == OURS}
    lines = []
    for row in rows:
        mine = ours.get(row["data_set"])
        if mine is None or row["found"] is None:
            continue
        kinds = [
            name for key, name in (("found", "found centers"), ("at_random", "random ones")) if row[key] < mine[key]
        ]
        if kinds:
            slower = row["seconds"] / mine["seconds"]
            lines.append(
                f"- {row['data_set']}: {row['peer']}, for {' and '.join(kinds)}, {number(slower, 2)} times the seconds."
            )
    return lines


def _machine(folder: Path, rows: list[Row]) -> str:
    path = folder / "points_machine.json"
    if not path.is_file():
        return ""
    machine = json.loads(path.read_text())
    loads = [row["other_cores"] for row in rows if row["other_cores"] is not None]
    busy = f"Meanwhile other work kept {np.mean(loads):.1f} cores busy, {max(loads):.1f} at most." if loads else ""
    return words(f"""
        This section: {machine["cores"]} cores ({machine["processor"]}), {machine["memory_gb"]} GB,
        {machine["system"]}, Python {machine["python"]}; {machine["date"]}. {busy} {machine["note"]}
    """)
