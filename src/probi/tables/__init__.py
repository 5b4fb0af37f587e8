"""Arrow tables and the four layouts: points, groups, long, nested. From and to the arrays of Nodes.

Defined here is what the options of the command line need: its help loads no pyarrow.
"""

from typing import Literal

# What a row of a table is.
Layout = Literal["points", "groups", "long", "nested"]

# The column of a role: its name, False (no column has it), or None (infer it).
Given = str | Literal[False] | None

# Names, in lower case, of columns that are taken for ids if the user names none.
ID_NAMES = ("id", "node", "node_id", "nodeid", "key")
