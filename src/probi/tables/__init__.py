"""Arrow tables and the four layouts: points, groups, long, nested. From and to the arrays of Nodes.

Defined here is what the options of the command line need: its help loads no pyarrow.
"""

from typing import Literal

from probi.errors import InputError

# The column of a role: its name, False (no column has it), or None (infer it).
Given = str | Literal[False] | None

# How to treat rows that lack a value.
MISSING = ("error", "skip-row", "skip-node", "absent")

# Names, in lower case, of columns that are taken for ids if the user names none.
ID_NAMES = ("id", "node", "node_id", "nodeid", "key")


def check_missing(missing: str, probabilities: str) -> None:
    """Raise on an unknown option, and on two that contradict each other."""
    if missing not in MISSING:
        raise InputError(f"missing is {missing!r}, but must be one of {', '.join(MISSING)}.")
    if missing == "absent" and probabilities == "normalize":
        raise InputError(
            "missing 'absent' and probabilities 'normalize' do not go together: the first takes probability away, the "
            "second puts it back. Use missing 'skip-row'."
        )
