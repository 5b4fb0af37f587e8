"""The example scripts run and say what they should."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_hurricane_otis(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "hurricane_otis.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "799 nodes, 19,947 realizations (1 to 31 a node)" in shown
    assert (tmp_path / "results" / "otis.png").stat().st_size > 50_000
