"""Reading takes the memory of a few chunks, however long the file is."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

SHORT, LONG = 200_000, 2_000_000

# What reading ten times as much may take besides, in MB. It is about 20: ids that have been seen, and memory that is
# not given back at once. All of the long file would be 48 MB as a table; the text of the CSV is 41 MB.
MOST = 40

PROGRAM = """
import sys, probi.io
from probi.io.formats import base, csv_file
base.MAX_ROWS, csv_file.BLOCK = 1 << 14, 1 << 19  # so that the short file has many, too
n = sum(len(nodes) for nodes in probi.io.read(sys.argv[1], layout="long"))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(n, int(peak.split()[1]) / 1024)
"""


def table(n):
    draw = np.random.default_rng(0)
    ids = np.repeat(np.arange(n // 4), 4)
    return pa.table({"id": ids, "x": draw.normal(size=n).round(4), "y": draw.normal(size=n).round(4)})


def peak(path, n):
    run = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], check=True, capture_output=True, timeout=120)
    n_nodes, megabytes = run.stdout.split()
    assert int(n_nodes) == n // 4
    return float(megabytes)


@pytest.mark.process
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is asked of /proc")
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_memory_does_not_grow_with_the_file(tmp_path, format):
    peaks = []
    for n in (SHORT, LONG):
        path = tmp_path / f"{n}.{'csv' if format == 'csv' else 'parquet'}"
        if format == "csv":
            pacsv.write_csv(table(n), path)
        else:
            pq.write_table(table(n), path, row_group_size=n)  # one: it must not be decoded as a whole
        peaks.append(peak(path, n))
    assert peaks[1] - peaks[0] < MOST
