"""Small tables for notebooks, where text would do in a terminal."""

from collections.abc import Sequence
from html import escape

# Rows and columns that are shown of what is long.
MAX_ROWS, MAX_COLUMNS = 20, 8


def table(caption: str, rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> str:
    """A table as HTML, with its first column as names of the rows; all text is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    return (
        f'<table><caption style="text-align:left;white-space:nowrap">{escape(caption)}</caption>'
        f"{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
    )
