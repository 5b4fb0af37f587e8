"""Search for inputs that a parser does not stand: ``python -m fuzz``, or some parsers: ``python -m fuzz csv npy``."""

import argparse
import hashlib
import re
import resource
import subprocess
import sys
from pathlib import Path

from fuzz.seeds import CORPUS, SEEDS

ROOT = Path(__file__).parent
# What the search has found interesting, and its findings; kept from run to run.
FOUND = ROOT.parent / ".cache" / "fuzz"
MAX_STARTS = 50
SHORTEST = 30.0  # seconds: a start takes about ten


def search(name: str, seconds: float) -> bool:
    """Search for so many seconds of CPU time, and print what came of it; return whether nothing was found."""
    grown, findings = FOUND / name / "corpus", FOUND / name / "findings"
    for folder in (grown, findings):
        folder.mkdir(parents=True, exist_ok=True)
    if not any(grown.iterdir()):
        for seed in SEEDS[name]():
            (grown / hashlib.sha256(seed).hexdigest()[:12]).write_bytes(seed)
    begin, n_runs, n_starts = _cpu_seconds(), 0, 0
    # libFuzzer counts seconds on the clock: beside other work it stops too early and is started again for the rest.
    while (left := seconds - (_cpu_seconds() - begin)) > SHORTEST and n_starts < MAX_STARTS:
        n_starts += 1
        folders = [str(grown), *([str(CORPUS / name)] if (CORPUS / name).is_dir() else [])]
        command = [sys.executable, "-m", "fuzz.search", name, str(findings), f"-max_total_time={left:.0f}", *folders]
        log = FOUND / name / f"log-{n_starts}.txt"
        with log.open("w") as file:
            subprocess.run(command, stdout=file, stderr=file, cwd=ROOT.parent, check=False)
        text = log.read_text(errors="replace")
        n_runs += sum(map(int, re.findall(r"number_of_executed_units: (\d+)", text)[-1:]))
    found = sorted(path for path in findings.iterdir() if path.suffix != ".txt")
    print(
        f"{name:12s} {n_runs:9,d} runs, {(_cpu_seconds() - begin) / 60:5.1f} CPU minutes, {n_starts} starts", flush=True
    )
    for path in found:
        print(f"  {path}", flush=True)
    return not found


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("parsers", nargs="*", choices=[[], *SEEDS], default=[], metavar="PARSER", help=", ".join(SEEDS))
    parser.add_argument("--minutes", type=float, default=30.0, help="of CPU time for each parser")
    given = parser.parse_args()
    fine = [search(name, 60 * given.minutes) for name in given.parsers or SEEDS]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
