"""The comparison in the README, made of recorded data."""

from pathlib import Path
from typing import Any

from experiments.pages import billion
from experiments.records import read
from experiments.writing import number, table, words

START, END = "<!-- results: made by python -m experiments pages -->", "<!-- end of results -->"

# As they are named in the data, and in the table.
SYSTEMS = {
    "probi, default": "probi, one pass",
    "BICO 0.1.5": "BICO (C++), one pass",
    "MiniBatchKMeans, one pass": "MiniBatchKMeans, one pass",
    "Birch": "Birch, one pass",
    "KMeans of gravity centers (UK-means)": "k-means of the means",
}


def comparison(folder: Path) -> str:
    """Seconds and cost, over the smallest cost that any of all systems found; then the stream of a billion points."""
    rows = read(folder / "peers.csv")
    out = []
    for name in dict.fromkeys(row["data_set"] for row in rows):
        some = {row["peer"]: row for row in rows if row["data_set"] == name}
        best = min(row["cost"] for row in some.values() if row["cost"] is not None)
        k, stand_in = some["probi, default"]["k"], some["probi, default"]["stand_in"]
        cells = [_cell(some.get(system), best) for system in SYSTEMS]
        out.append([f"{name}{' (generated)' if stand_in else ''}, k = {k}", *cells])
    stream = [f"\n{words(billion(row))}" for row in read(folder / "billion.csv")]
    return "".join([table(["", *SYSTEMS.values()], out), *stream])


def _cell(row: dict[str, Any] | None, best: float) -> str:
    if row is None or row["cost"] is None:
        return "–"
    return f"{number(row['seconds'], 2)} s, {row['cost'] / best:.2f}"


def write(readme: Path, folder: Path) -> None:
    """Put the comparison where it belongs."""
    text = readme.read_text()
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{START}\n{comparison(folder)}{END}{after}")
