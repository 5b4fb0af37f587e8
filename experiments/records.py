"""Results as data: a CSV file that grows by a row a run, so that what is done is not done again."""

import csv
import datetime
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("probi", "numpy", "numba", "scikit-learn", "pyarrow")


class Records:
    """Rows of a CSV file, by their keys."""

    def __init__(self, path: Path, keys: tuple[str, ...], values: tuple[str, ...]) -> None:
        self.path, self.keys, self.columns = path, keys, keys + values
        self.rows: dict[tuple[str, ...], dict[str, str]] = {}
        if path.is_file():
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    self.rows[self._key(row)] = row

    def _key(self, row: dict[str, Any]) -> tuple[str, ...]:
        return tuple(str(row[name]) for name in self.keys)

    def has(self, **keys: Any) -> bool:
        """Whether this was done before."""
        return self._key(keys) in self.rows

    def add(self, **row: Any) -> None:
        """Write a row at once: a killed run loses only what it was at."""
        texts = {name: _text(row.get(name, "")) for name in self.columns}
        is_new = not self.path.is_file()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerow(texts)
            file.flush()
            os.fsync(file.fileno())
        self.rows[self._key(texts)] = texts

    def drop_failed(self) -> None:
        """Remove rows with a note, which says why there is no result, so that they are tried again."""
        kept = {key: row for key, row in self.rows.items() if not row["note"]}
        if len(kept) == len(self.rows):
            return
        self.rows = kept
        part = self.path.with_suffix(".part")
        with part.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept.values())
        part.replace(self.path)

    def __iter__(self) -> Any:
        return iter(self.rows.values())


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def read(path: Path) -> list[dict[str, Any]]:
    """Rows of a CSV file, numbers as numbers."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


def write_machine(folder: Path, note: str = "", name: str = "machine.json") -> None:
    """Say on what it was measured, and what is to be known about that; no name of the machine, no path."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "date": datetime.date.today().isoformat(),
        "note": note,
    }
    (folder / name).write_text(json.dumps(found, indent=2) + "\n")


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.is_file():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
