"""The PROJ inside eccodes, which xarray loads with cfgrib, breaks a pyproj that is first used after it."""

import contextlib

with contextlib.suppress(ImportError):
    import pyproj

    pyproj.CRS(4326)
