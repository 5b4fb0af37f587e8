"""NetCDF, by what xarray has to read it: h5netcdf, netCDF4 or SciPy."""

from pathlib import Path

from probi.errors import InputError
from probi.io.formats.base import Format, OpenOptions, Source
from probi.io.formats.labeled import LabeledFile
from probi.summary.claims import MAX_CLAIM

# How a heap of HDF5 begins, which holds values of any length: signature and version.
HEAP = b"GCOL\1\0\0\0"
HDF = b"\x89HDF"
# Larger files are not searched for heaps, or for variables of a wrong size.
MAX_SEARCHED = 1 << 24


def _open(source: Source, options: OpenOptions) -> LabeledFile:
    if isinstance(source.path, Path) and source.path.stat().st_size <= MAX_SEARCHED:
        data = source.path.read_bytes()
        check_heaps(data)
        if data.startswith(HDF):
            _check_sizes(source.path)
    return LabeledFile(source, options, engine=None)


def check_heaps(data: bytes) -> None:
    """Raise on free space of size 0, behind which HDF5 would look for the next object for ever."""
    seen: set[int] = set()
    heap = data.find(HEAP)
    while heap >= 0:
        place, end = heap + 16, min(heap + int.from_bytes(data[heap + 8 : heap + 16], "little"), len(data))
        while place + 16 <= end and place not in seen:
            seen.add(place)
            size = int.from_bytes(data[place + 8 : place + 16], "little")
            is_free = data[place : place + 2] == b"\0\0"
            step = size if is_free else 16 + -(-size // 8) * 8
            if step % (1 << 64) == 0:
                raise InputError("it is damaged: a heap of HDF5 has an object without end.")
            place += step
        heap = data.find(HEAP, heap + 1)


def _check_sizes(path: Path) -> None:
    """Raise on a large variable that is not as long as its dimensions: it would be read whole."""
    try:
        import h5py
    except ImportError:  # netCDF4 reads it
        return
    with h5py.File(path) as file:
        for name, variable in file.items():
            if not isinstance(variable, h5py.Dataset) or variable.nbytes <= MAX_CLAIM:
                continue
            for axis, scales in enumerate(variable.dims):
                is_unlimited = variable.maxshape[axis] is None
                if len(scales) and not is_unlimited and scales[0].shape != (variable.shape[axis],):
                    raise InputError(
                        f"it is damaged: variable {name!r} has shape {variable.shape}, but dimension "
                        f"{scales[0].name.strip('/')!r} has {scales[0].size:,} places."
                    )


FORMAT = Format(
    endings=(".nc", ".nc4", ".cdf"),
    magic=(b"CDF\x01", b"CDF\x02", b"CDF\x05", HDF),
    open=_open,
    is_labeled=True,
)
