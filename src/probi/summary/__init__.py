"""Summaries of a stream of nodes: :class:`Summary` of all of it, :class:`Window` of its last periods."""

from typing import TYPE_CHECKING

from probi._lazy import lazy

if TYPE_CHECKING:
    from probi.summary.summary import Summary as Summary
    from probi.summary.window import Window as Window

# The command line takes its options from here, and --help loads no kernel.
__getattr__, __dir__ = lazy(__name__, {"probi.summary.summary": ("Summary",), "probi.summary.window": ("Window",)})
