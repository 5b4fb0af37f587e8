"""Run all benchmarks, or those named: ``python -m benchmarks kernels solver``."""

import os
import sys
from pathlib import Path

from benchmarks import bico, billion, engines, fields, files, imputation, kernels, shapes, solver, startup, streams

ALL = {
    "startup": startup.main,
    "kernels": kernels.main,
    "solver": solver.main,
    "streams": streams.main,
    "bico": bico.main,
    "shapes": shapes.main,
    "files": files.main,
    "fields": fields.main,
    "imputation": imputation.main,
    "engines": engines.main,
    "billion": billion.main,
}


def main() -> int:
    wanted = sys.argv[1:] or list(ALL)
    unknown = [name for name in wanted if name not in ALL]
    if unknown:
        print(f"There is no benchmark {unknown[0]!r}; there are {', '.join(ALL)}.", file=sys.stderr)
        return 2
    data = Path(os.environ.get("PROBI_DATA") or "data")
    for name in wanted:
        print(f"\n== {name}", flush=True)
        ALL[name](data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
