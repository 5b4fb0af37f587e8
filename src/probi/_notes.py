"""What users are told: notes, warnings that point to their line of code, tables in notebooks, memory and versions."""

import contextlib
import sys
import warnings
from collections.abc import Sequence
from html import escape
from pathlib import Path

from probi import __version__

# True to print errors only.
quiet = False

# Rows and columns shown in a notebook.
MAX_ROWS, MAX_COLUMNS = 20, 8

_PACKAGE = str(Path(__file__).parent)


def counted(number: int, what: str) -> str:
    """``1 node``, ``12,345 nodes``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def rounded(error: float) -> float:
    """Round an error to two digits, to show without an exponent: 270, not 2.7e+02."""
    return float(f"{error:.2g}")


def name_of(value: object) -> str:
    """An id of a node as text; one of several columns has commas."""
    parts = getattr(value, "item", lambda: value)()
    return ", ".join(map(str, parts)) if isinstance(parts, tuple) else str(value)


def note(text: str) -> bool:
    """Print a line on standard error if it is a terminal or notebook; return whether it was printed."""
    # A notebook kernel shows standard error below the cell, but is not a terminal.
    visible = sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
    if quiet or not visible:
        return False
    print(f"probi: {text}", file=sys.stderr, flush=True)
    return True


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called probi, at any depth inside probi."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def html_table(caption: str, rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> str:
    """An HTML table for notebooks whose first column has the row names; all text is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    return (
        f'<table><caption style="text-align:left;white-space:nowrap">{escape(caption)}</caption>'
        f"{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
    )


def peak_megabytes() -> float:
    """Peak memory of this process; 0 if the system does not report it."""
    status = Path("/proc/self/status")
    if status.is_file():
        # Linux: getrusage would also count the process that started this one.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6


def versions() -> dict[str, str]:
    """Versions on which a result may depend."""
    import platform
    from importlib import metadata  # takes 20 ms, which reading and solving do without

    known = {"probi": __version__, "python": platform.python_version()}
    for name in ("numpy", "numba", "pyarrow"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            known[name] = metadata.version(name)
    return known
