"""Faults at random rows, against a plain definition of what must be left of the file."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import examples
from table_files import Plain, as_nodes, assert_same, batches_of, csv_text, joined, tiny, write

pytestmark = pytest.mark.slow

INF = float("inf")
MISSING = ("x missing", "y missing", "p missing", "w missing", "id missing")
BAD = ("x inf", "y huge", "p negative", "p large", "w other")
UNREAD = ("x text", "ragged")  # in CSV only

RULES = ("error", "skip-row", "skip-node")


@st.composite
def planted(draw, kinds, first=0):
    """Sizes of nodes, and faults by row, the first ones excepted."""
    sizes = [4, *draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))]
    rows = st.integers(first, sum(sizes) - 1)
    faults = draw(st.dictionaries(rows, st.sets(st.sampled_from(kinds), min_size=1, max_size=2), max_size=6))
    return sizes, faults


def rows_of(sizes, faults):
    """Rows [id, x, y, p, weight] with their faults in them."""
    owners = [node for node, size in enumerate(sizes) for _ in range(size)]
    rows = []
    for row, node in enumerate(owners):
        values = {"id": node - 2, "x": float(row), "y": -1.5, "p": 0.25, "w": 1.0 + node % 2}
        change = {
            "x missing": ("x", None), "y missing": ("y", None), "p missing": ("p", None), "w missing": ("w", None),
            "id missing": ("id", None), "x inf": ("x", INF), "y huge": ("y", 1e160), "p negative": ("p", -0.5),
            "p large": ("p", 1.5), "w other": ("w", 9.0), "x text": ("x", "drei"), "ragged": ("id", None),
        }  # fmt: skip
        for fault in sorted(faults.get(row, ())):
            name, value = change[fault]
            values[name] = value
        rows.append(values)
    return rows


def kept(rows, faults, rule):
    """Nodes that must come out with on_bad="skip", and the numbers of rows that are missing and rejected."""
    n_missing = n_rejected = 0
    out = []
    for group in groups_of(rows):
        lacking = {i for i in group if None in rows[i].values() and not set(UNREAD) & faults.get(i, set())}
        if rule == "skip-row":
            n_missing += len(lacking)
            group = [i for i in group if i not in lacking]
        elif rule == "skip-node" and lacking:
            n_missing += len(group)
            continue
        if not group:
            continue
        if any(is_bad(rows[i], rows[group[0]]) for i in group) or sum(rows[i]["p"] for i in group) > 1:
            n_rejected += len(group)
            continue
        first = rows[group[0]]
        realizations = [((rows[i]["x"], rows[i]["y"]), rows[i]["p"]) for i in group]
        out.append(Plain(first["id"], first["w"], realizations))
    return out, n_missing, n_rejected


def groups_of(rows):
    """Numbers of the rows of each node: those without an id are where they stand, or at a border on their own."""
    ids = [row["id"] for row in rows]
    for i, id in enumerate(ids):
        if id is None:
            before = next((ids[j] for j in range(i - 1, -1, -1) if rows[j]["id"] is not None), None)
            after = next((ids[j] for j in range(i + 1, len(ids)) if rows[j]["id"] is not None), None)
            ids[i] = before if before == after and before is not None else ("nobody", before)
    groups = []
    for i, id in enumerate(ids):
        if i and ids[i - 1] == id:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def is_bad(row, first):
    if None in row.values() or row["x"] == "drei":
        return True
    return row["x"] == INF or row["y"] == 1e160 or row["p"] < 0 or row["w"] != first["w"]


def check(path, rows, faults, rule):
    nodes, n_missing, n_rejected = kept(rows, faults, rule)
    options = {"layout": "long", "missing": rule, "on_bad": "skip", "weight": "w"}
    batches = batches_of(path, **options)
    if nodes:
        assert_same(joined(batches), as_nodes(nodes))
    else:
        assert joined(batches) is None
    counts = batches[-1].counts
    assert (counts.rows, counts.missing, counts.rejected) == (len(rows), n_missing, n_rejected)
    rejected = [r for batch in batches for r in batch.rejected]
    assert len({r.row for r in rejected}) == len(rejected) == n_missing + n_rejected
    return rejected


@given(planted(MISSING + BAD), st.sampled_from(RULES), st.integers(1, 6))
@example(([3], {1: {"id missing"}}), "skip-row", 2)
@example(([3, 1], {0: {"p large"}, 1: {"x missing"}}), "skip-row", 1)
@examples(50)
def test_parquet(data, rule, size):
    sizes, faults = data
    rows = rows_of(sizes, faults)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        tiny(patch, size)
        types = {"id": "int64"}
        columns = {name: pa.array([row[name] for row in rows], types.get(name, "double")) for name in rows[0]}
        path = write(Path(folder) / "x.parquet", columns, step=5)
        check(path, rows, faults, rule)


# What a column holds is guessed by the first block, which may be one row or a few here.
@given(planted(MISSING + BAD + UNREAD, first=4), st.sampled_from(RULES), st.integers(12, 70), st.booleans())
@examples(50)
def test_csv(data, rule, block, empty_lines):
    sizes, faults = data
    rows = rows_of(sizes, faults)
    ragged = {row for row, kinds in faults.items() if "ragged" in kinds}
    lines = csv_text({name: [row[name] for row in rows] for name in rows[0]}).split("\n")
    where = {}
    out = [lines[0]]
    for i, line in enumerate(lines[1:-1]):
        out += [""] * (empty_lines and i % 3 == 0)
        where[i + 1] = len(out) + 1
        out.append("1,2" if i in ragged else line)
    for row in ragged:
        rows[row] = dict.fromkeys(rows[row])
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "x.csv"
        path.write_text("\n".join(out))
        tiny(patch, block=block)
        assert all(r.line == where[r.row] for r in check(path, rows, faults, rule))
