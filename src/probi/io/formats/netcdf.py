"""NetCDF, by what xarray has to read it: h5netcdf, netCDF4 or SciPy."""

from functools import partial

from probi.io.formats.base import Format
from probi.io.formats.labeled import LabeledFile

FORMAT = Format(
    endings=(".nc", ".nc4", ".cdf"),
    magic=(b"CDF\x01", b"CDF\x02", b"CDF\x05", b"\x89HDF"),
    open=partial(LabeledFile, engine=None),
    is_labeled=True,
)
