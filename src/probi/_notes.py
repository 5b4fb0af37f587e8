"""Messages to users: progress notes, and warnings that point to the user's line of code."""

import sys
import warnings
from pathlib import Path

# True to print errors only.
quiet = False

_PACKAGE = str(Path(__file__).parent)


def counted(number: int, what: str) -> str:
    """``1 node``, ``12,345 nodes``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def rounded(error: float) -> float:
    """Round an error to two digits, to show without an exponent: 270, not 2.7e+02."""
    return float(f"{error:.2g}")


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
