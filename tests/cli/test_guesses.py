"""What the command line guesses of columns: what it asks about, and what it says."""

import pytest
from commands import error_line, probi


@pytest.fixture
def table(tmp_path):
    def write(text):
        path = tmp_path / "table.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_weight_that_may_be_a_feature_is_asked_for(capsys, table):
    people = table("height,weight,age\n1.8,80,30\n1.6,60,20\n1.7,70,40\n")
    asked = probi(capsys, "cluster", people, "-k", 1)
    assert (asked.code, "--weight none" in asked.err) == (2, True)
    assert "3 features (height, weight, age)" in probi(capsys, "cluster", people, "-k", 1, "--weight", "none").err
    assert (
        "2 features (height, age); weight weight" in probi(capsys, "cluster", people, "-k", 1, "--weight", "weight").err
    )


def test_rows_that_share_an_id_are_asked_about(capsys, table):
    draws = table("id,x\na,0\na,1\nb,8\nb,9\n")
    asked = probi(capsys, "cluster", draws, "-k", 1)
    assert asked.code == 2
    assert "--layout long) or layout" in asked.err
    assert probi(capsys, "cluster", draws, "-k", 1, "--layout", "long").code == 0
    assert probi(capsys, "cluster", draws, "-k", 1, "--layout", "points").code == 0
    assert "2 features (id, x)" in probi(capsys, "cluster", table("id,x\n1,0\n1,1\n"), "-k", 1, "--id", "none").err


def test_numbers_of_groups_are_asked_about(capsys, table):
    groups = table("group,mu,sigma\n1,0,1\n1,1,1\n2,8,1\n2,9,1\n")
    assert "id='group' (--id group), or id=False (--id none)." in error_line(probi(capsys, "info", groups))
    assert "features: group, mu, sigma" in probi(capsys, "info", groups, "--id", "none").out
    assert "ids: group" in probi(capsys, "info", groups, "--id", "group", "--layout", "long").out


def test_an_id_that_comes_back_late_is_noticed(capsys, table, tmp_path):
    member = "".join(f"{i},{i % 7}\n" for i in range(20_000))
    asked = probi(capsys, "cluster", table(f"id,x\n{member}{member}"), "-k", 1)
    assert asked.code == 2
    assert "table.csv: Several rows have the id 0." in asked.err
    # Files that count from the start again hold nodes of their own.
    for day in ("a", "b"):
        (tmp_path / f"{day}.csv").write_text("id,x\n1,0\n2,1\n", encoding="utf-8")
    (tmp_path / "table.csv").unlink()
    assert probi(capsys, "cluster", tmp_path, "-k", 1).code == 0


def test_degrees_are_noted(capsys, table):
    fixes = table("lon,lat\n0,0\n0,1\n9,9\n")
    assert "degrees are not distances" in probi(capsys, "cluster", fixes, "-k", 1).err
    for said in (("--lonlat", "lon,lat"), ("--features", "lon,lat")):
        assert "Note:" not in probi(capsys, "cluster", fixes, "-k", 1, *said).err
