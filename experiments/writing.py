"""Words, numbers and tables of the pages."""

from collections.abc import Iterable, Sequence

import numpy as np


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], n_left: int = 1, is_last_left: bool = False) -> str:
    """Markdown table; the first columns, with words, to the left, the others to the right, the last as asked."""
    marks = ["---"] * n_left + ["---:"] * (len(columns) - n_left)
    if is_last_left:
        marks[-1] = "---"
    lines = [columns, marks, *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def words(text: str) -> str:
    """A paragraph, written in lines."""
    return " ".join(text.split()) + "\n"


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table; a dash for none."""
    if value is None or not np.isfinite(value):
        return "–"
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.{digits - 1}e}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    return f"{value:,.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"
