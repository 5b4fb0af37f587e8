"""The comparison in the README is that of the recorded data."""

from pathlib import Path

from experiments import readme

ROOT = Path(__file__).resolve().parents[2]


def test_the_readme_shows_what_was_recorded():
    text = (ROOT / "README.md").read_text()
    _, _, rest = text.partition(readme.START)
    shown, found, _ = rest.partition(readme.END)
    assert found
    assert shown.strip() == readme.comparison(ROOT / "docs" / "results").strip()


def test_only_the_table_is_replaced(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(f"before\n{readme.START}\nold\n{readme.END}\nafter\n")
    readme.write(path, ROOT / "docs" / "results")
    first, *_, last = path.read_text().splitlines()
    assert (first, last) == ("before", "after")
    assert "old" not in path.read_text()
    assert "probi, one pass" in path.read_text()
