"""Small HTML tables for notebooks."""

from collections.abc import Sequence
from html import escape

# Rows and columns shown of long tables.
MAX_ROWS, MAX_COLUMNS = 20, 8


def table(caption: str, rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> str:
    """An HTML table whose first column has the row names; all text is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    return (
        f'<table><caption style="text-align:left;white-space:nowrap">{escape(caption)}</caption>'
        f"{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
    )
