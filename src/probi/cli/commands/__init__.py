"""One module per command: its options, and what it does.

Modules that do the work are imported inside the functions, so that --help loads neither NumPy nor Numba nor pyarrow.
"""
