"""Zarr: a folder."""

from functools import partial

from probi.io.formats.base import Format
from probi.io.formats.labeled import LabeledFile

FORMAT = Format(
    endings=(".zarr",),
    magic=(),
    open=partial(LabeledFile, engine="zarr"),
    is_labeled=True,
    is_folder=True,
)
