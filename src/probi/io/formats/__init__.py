"""The file formats. A new one is a module that defines FORMAT, and one line here."""

# Name on the command line (--format) and module, which is loaded when it is used: the help needs no pyarrow.
FORMATS = {
    "parquet": "probi.io.formats.parquet",
    "csv": "probi.io.formats.csv_file",
    "ipc": "probi.io.formats.ipc",
    "npy": "probi.io.formats.npy",
    "netcdf": "probi.io.formats.netcdf",
    "zarr": "probi.io.formats.zarr_folder",
    "grib": "probi.io.formats.grib",
}
