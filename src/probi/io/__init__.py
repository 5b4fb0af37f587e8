"""Files and streams of nodes: readers, writers, checkpoints."""

from typing import TYPE_CHECKING

from probi._lazy import lazy

if TYPE_CHECKING:
    from probi.io.node_assembler import Batch
    from probi.io.reader import Reader, read
    from probi.io.transform import Transform

__all__ = ["Batch", "Reader", "Transform", "read"]

# The options of the command line are defined here too, and its help needs no pyarrow.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "probi.io.node_assembler": ("Batch",),
        "probi.io.reader": ("Reader", "read"),
        "probi.io.transform": ("Transform",),
    },
)
