"""Loaders of the paper's data sets on small files of the true format, and their stand-ins."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments import datasets
from experiments.datasets import ALL, MissingDataError, fvecs, rows_of

TABLE_1 = {  # of the paper: points, dimension, nodes
    "BigCross": (11_620_300, 57, 1_162_030),
    "Caltech128": (3_168_383, 128, 316_838),
    "Census": (2_458_285, 68, 245_828),
    "Covertype": (581_012, 55, 58_101),
    "Tower": (4_915_200, 3, 491_520),
}


def test_sizes_are_those_of_the_paper():
    assert {name: (s.n_points, s.n_features, s.n_nodes) for name, s in ALL.items()} == TABLE_1


@pytest.mark.parametrize("name", ["covtype.data", "covertype.parquet"])
def test_covertype(tmp_path, name):
    rows = np.arange(110).reshape(2, 55)
    if name.endswith("parquet"):
        pq.write_table(pa.table({f"c{j}": rows[:, j].astype(np.int16) for j in range(55)}), tmp_path / name)
    else:
        (tmp_path / name).write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    found = ALL["Covertype"].load(tmp_path)
    assert found.dtype == np.float32
    assert (found == rows).all()


def test_census_leaves_the_case_id_out(tmp_path):
    names = ["caseid", *(f"dAttribute{j}" for j in range(68))]
    lines = [names, [10000, *range(68)], [10001, *range(1, 69)]]
    path = tmp_path / "USCensus1990.data.txt"
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    assert ALL["Census"].load(tmp_path).tolist() == [list(range(68)), list(range(1, 69))]


@pytest.mark.parametrize("mark", [" ", ",", ";", "\t"])
def test_tower(tmp_path, mark):
    (tmp_path / "tower.txt").write_text(f"1{mark}2{mark}3\n255{mark}0{mark}7\n")
    assert ALL["Tower"].load(tmp_path).tolist() == [[1, 2, 3], [255, 0, 7]]


def test_caltech_as_fvecs(tmp_path):
    rows = np.random.default_rng(0).integers(0, 256, (5, 128)).astype(np.float32)
    raw = b"".join(np.int32(128).tobytes() + row.tobytes() for row in rows)
    (tmp_path / "caltech128.fvecs").write_bytes(raw)
    assert (ALL["Caltech128"].load(tmp_path) == rows).all()


@pytest.mark.parametrize(
    "raw", [b"", np.int32(128).tobytes() * 3, np.int32(-1).tobytes(), np.int32([1, 5, 2, 5]).tobytes()]
)
def test_what_is_no_fvecs_is_refused(tmp_path, raw):
    path = tmp_path / "x.fvecs"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"x\.fvecs"):
        fvecs(path)


def test_bigcross_is_built_from_tower_and_covertype(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "N_BIGCROSS", 60)
    tower = np.arange(30).reshape(10, 3)
    covertype = np.arange(165).reshape(3, 55)
    (tmp_path / "tower.txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in tower))
    (tmp_path / "covtype.data").write_text("".join(",".join(map(str, row)) + "\n" for row in covertype))
    found = ALL["BigCross"].load(tmp_path)
    assert found.shape == (60, 57)
    assert {tuple(row) for row in found[:, :3]} <= {tuple(row) for row in tower}
    assert (found[:, 3:] == np.repeat(covertype[:, :54], 20, axis=0)).all()


def test_a_wrong_number_of_columns_is_refused(tmp_path):
    (tmp_path / "tower.txt").write_text("1 2\n3 4\n")
    with pytest.raises(ValueError, match="has 2 columns, but 3 are wanted"):
        ALL["Tower"].load(tmp_path)


@pytest.mark.parametrize("name", ALL)
def test_a_missing_file_says_where_to_get_it(tmp_path, name):
    with pytest.raises(MissingDataError, match=rf"{name}: no file of it in .*\. It is .* Or use --stand-in"):
        rows_of(ALL[name], tmp_path, may_stand_in=False)
    assert rows_of(ALL[name], tmp_path, may_stand_in=True) == (None, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_stand_ins_have_the_dimension_and_do_not_depend_on_the_cut(name, monkeypatch):
    monkeypatch.setattr(datasets, "BLOCK", 1 << 12)  # rows that are made at once
    data_set = ALL[name]
    start = datasets.BLOCK - 300
    whole = data_set.stand_in(start, start + 900)
    assert whole.shape == (900, data_set.n_features)
    assert whole.dtype == np.float32
    assert np.isfinite(whole).all()
    parts = [
        data_set.stand_in(a, b)
        for a, b in ((start, start + 100), (start + 100, start + 500), (start + 500, start + 900))
    ]
    assert (np.concatenate(parts) == whole).all()
    assert len(np.unique(whole, axis=0)) > 100
