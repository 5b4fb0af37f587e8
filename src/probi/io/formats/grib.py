"""GRIB, by cfgrib."""

from functools import partial

from probi.io.formats.base import Format
from probi.io.formats.labeled import LabeledFile

FORMAT = Format(
    endings=(".grib", ".grib2", ".grb", ".grb2"),
    magic=(b"GRIB",),
    open=partial(LabeledFile, engine="cfgrib"),
    is_labeled=True,
)
