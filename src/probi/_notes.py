"""Words to people: a line to those who wait, and warnings that name their own line of code."""

import sys
import warnings
from pathlib import Path

# Set where nothing may be said, errors excepted.
quiet = False

_PACKAGE = str(Path(__file__).parent)


def counted(number: int, what: str) -> str:
    """``1 node``, ``12,345 nodes``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def rounded(error: float) -> float:
    """An error to two digits, to be shown without an exponent: 270, not 2.7e+02."""
    return float(f"{error:.2g}")


def note(text: str) -> bool:
    """Print a line on standard error if somebody can see it now, and say whether that is so; not into a pipe."""
    # The kernel of a notebook shows standard error below the cell, but is no terminal.
    seen = sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
    if quiet or not seen:
        return False
    print(f"probi: {text}", file=sys.stderr, flush=True)
    return True


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that called probi, however deep the cause was found."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
