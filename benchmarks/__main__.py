"""Run all benchmarks, or those named: ``python -m benchmarks kernels solver``."""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from benchmarks import (
    bico,
    billion,
    engines,
    fields,
    files,
    kernels,
    kills,
    shapes,
    soak,
    solver,
    startup,
    streams,
)

ALL = {
    "startup": startup.main,
    "kernels": kernels.main,
    "solver": solver.main,
    "streams": streams.main,
    "bico": bico.main,
    "shapes": shapes.main,
    "files": files.main,
    "fields": fields.main,
    "engines": engines.main,
    "billion": billion.main,
    "soak": soak.main,
    "kills": kills.main,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", help=f"among {', '.join(ALL)}; default: all")
    parser.add_argument("--minutes", type=float, default=1.0, help="of soak")
    given = parser.parse_args()
    wanted = given.names or list(ALL)
    unknown = [name for name in wanted if name not in ALL]
    if unknown:
        print(f"There is no benchmark {unknown[0]!r}; there are {', '.join(ALL)}.", file=sys.stderr)
        return 2
    data = Path(os.environ.get("PROBI_DATA") or "data")
    for name in wanted:
        print(f"\n== {name}", flush=True)
        (partial(soak.main, minutes=given.minutes) if name == "soak" else ALL[name])(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
