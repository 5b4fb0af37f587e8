"""One process of the search: atheris changes inputs, and what is found is kept while the search goes on.

Only a hang, an abort and the like end the process; libFuzzer then leaves the input beside the other findings.
"""

import faulthandler
import hashlib
import pkgutil
import random
import resource
import sys
import traceback
import warnings
from pathlib import Path

import atheris

# Kernels are imported before: Numba compiles them, so they must stay as they are. Engines and pictures parse nothing.
NOT_TRACED = ("probi._kernels", "probi.engines", "probi.report", "probi.__main__", "probi.xarray")
MAX_LENGTH = 1 << 16
ADDRESS_SPACE = 16 << 30  # more than a finding needs, less than the machine has


def main(name: str, findings: Path, arguments: list[str]) -> None:
    """Search until libFuzzer's arguments say that it is enough."""
    import probi
    import probi._kernels as kernels

    for module in pkgutil.iter_modules(kernels.__path__, "probi._kernels."):
        __import__(module.name)
    with atheris.instrument_imports(include=["probi"]):
        for module in pkgutil.walk_packages(probi.__path__, "probi."):
            if not module.name.startswith(NOT_TRACED):
                __import__(module.name)
    from fuzz.limits import SECONDS, check
    from fuzz.mutators import MUTATORS
    from fuzz.seeds import SEEDS
    from fuzz.targets import TARGETS

    known: set[str] = set()

    def one(data: bytes) -> None:
        try:
            check(name, data)
        except BaseException as error:
            if (place := signature(error)) not in known:
                known.add(place)
                keep(findings, data, error)

    def mutated(data: bytes, max_size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.85:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    changed = MUTATORS[name](data, rng)
                if len(changed) <= max_size:
                    return changed
            except Exception:  # an input that is too far from its format for its mutator
                pass
        return bytes(atheris.Mutate(data, max_size))

    for seed in SEEDS[name]():  # kernels are compiled before time is measured
        TARGETS[name](seed)
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    # Seconds on the clock, which beside other work pass without a run: what takes too long of the CPU, check() finds.
    options = [
        f"-timeout={30 * SECONDS}",
        f"-report_slow_units={30 * SECONDS}",
        "-rss_limit_mb=6000",
        f"-max_len={MAX_LENGTH}",
        "-len_control=0",
    ]
    options += ["-print_final_stats=1", f"-artifact_prefix={findings}/"]
    atheris.Setup([sys.argv[0], *options, *arguments], one, custom_mutator=mutated)
    atheris.Fuzz()


def signature(error: BaseException) -> str:
    """Where an error was raised: findings from one place are one finding."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/probi/" in frame.filename] or list(frames)
    numberless = "".join(sign for sign in str(error)[:60] if not sign.isdigit()) if not ours else ""
    return f"{type(error).__name__} {ours[-1].filename}:{ours[-1].lineno}{numberless}"


def keep(findings: Path, data: bytes, error: BaseException) -> None:
    """Write an input, and what became of it."""
    path = findings / hashlib.sha256(data).hexdigest()[:12]
    path.write_bytes(data)
    path.with_suffix(".txt").write_text("".join(traceback.format_exception(error)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
