"""A run that stops goes on after any batch and gives exactly the rest."""

import pytest
from table_files import (
    FORMATS,
    LAYOUTS,
    assert_same,
    batches_of,
    columns_of,
    joined,
    options_of,
    some_nodes,
    tiny,
    write,
)

import probi.io
from probi.io.node_assembler import Position


def check_every_stop(inputs, **options):
    """From every position on: the same nodes, origins, rejected rows and counts as without the stop."""
    whole = batches_of(inputs, **options)
    assert len(whole) > 2
    for i, batch in enumerate(whole):
        reader = probi.io.read(inputs, **options)
        rest = list(reader.batches(start=batch.position, counts=batch.counts))
        later = whole[i + 1 :]
        if joined(later) is None:
            assert joined(rest) is None
        else:
            assert_same(joined(rest), joined(later))
        assert [w for b in rest for w in b.where] == [w for b in later for w in b.where]
        assert [r for b in rest for r in b.rejected] == [r for b in later for r in b.rejected]
        assert (rest[-1] if rest else batch).counts == whole[-1].counts
    return whole


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_file(tmp_path, monkeypatch, layout, format):
    tiny(monkeypatch, 5, block=50)
    path = write(tmp_path / f"x.{format}", columns_of(some_nodes(layout, n=11), layout), step=6)
    check_every_stop(path, **options_of(layout))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["groups", "long"])
def test_several_files_with_bad_rows(tmp_path, monkeypatch, layout):
    tiny(monkeypatch, 5, block=70)
    columns = columns_of(some_nodes(layout, n=20), layout)
    columns["x1"][4] = columns["x1"][30] = None
    columns["x0"][11] = float("inf")
    columns["x0"][18] = columns["x1"][27] = columns["x1"][45] = "drei"
    for i, start in enumerate(range(0, len(columns["x0"]), 14)):
        part = {name: values[start : start + 14] for name, values in columns.items()}
        write(tmp_path / f"{i}.csv", part)
    whole = check_every_stop(tmp_path, **options_of(layout), on_bad="skip", missing="skip-row")
    assert whole[-1].counts.missing == 2
    assert whole[-1].counts.rejected > 0
    assert (whole[-1].counts.incomplete > 0) == (layout == "groups")


def test_rows_that_were_gathered(tmp_path, monkeypatch):
    """Positions count in the order of the nodes, in which they come out."""
    tiny(monkeypatch, 5)
    monkeypatch.setattr("probi.io.node_assembler.COORDINATES", 3)
    ids = [1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 1]
    path = write(tmp_path / "x.parquet", {"id": ids, "x": [float(i) for i in range(12)]})
    whole = check_every_stop(path, layout="long", gather=True)
    assert joined(whole).ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert joined(whole).points[:3, 0].tolist() == [0.0, 3.0, 11.0]
    assert whole[-1].position == Position(0, 12)


def test_the_end_is_a_position_too(tmp_path):
    path = write(tmp_path / "x.csv", {"x": [1.0, 2.0]})
    (batch,) = batches_of(path)
    assert batch.position == Position(0, 2)
    assert list(probi.io.read(path).batches(batch.position, batch.counts)) == []


def test_a_reader_can_be_read_again(tmp_path):
    path = write(tmp_path / "x.csv", columns_of(some_nodes("long"), "long"))
    reader = probi.io.read(path)
    first, second = list(reader), list(reader)
    assert len(first) == len(second) > 0
    assert all(a == b for a, b in zip(first, second, strict=True))


def test_batches_of_another_size_after_the_stop(tmp_path, monkeypatch):
    path = write(tmp_path / "x.parquet", columns_of(some_nodes("long"), "long"))
    tiny(monkeypatch, 7)
    whole = batches_of(path)
    tiny(monkeypatch, 2)
    rest = list(probi.io.read(path).batches(whole[2].position, whole[2].counts))
    assert_same(joined(rest), joined(whole[3:]))
    assert rest[-1].counts == whole[-1].counts


@pytest.mark.parametrize("start", range(9))
def test_rows_that_cannot_be_read_keep_their_numbers(tmp_path, start):
    """A position within a block of text."""
    (tmp_path / "x.csv").write_text("x,y\n1,2\n1\n1,2\n1,2\n1,2\n\n1,drei\n1,2\n1,2,3\n1,2\n")
    (batch,) = probi.io.read(tmp_path / "x.csv", on_bad="skip").batches(Position(0, start))
    bad = {2: 3, 6: 8, 8: 10}
    assert [(r.row, r.line) for r in batch.rejected] == [(row, line) for row, line in bad.items() if row > start]
    assert batch.where.tolist() == [row for row in range(start, 9) if row + 1 not in bad]
