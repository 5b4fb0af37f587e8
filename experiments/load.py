"""How busy the machine was with other work while something was measured."""

import os
import resource
import time
from pathlib import Path

STAT = Path("/proc/stat")
IDLE = (3, 4)  # idle and waiting for a disk, in the first line of /proc/stat
GUEST = 8  # from here on the line repeats what it has counted before


class OtherLoad:
    """Cores that other processes kept busy since this was made; None where the system does not say."""

    def __init__(self) -> None:
        self.start = _clocks()

    def cores(self) -> float | None:
        """Mean number of cores; what this process and its finished children used does not count."""
        if self.start is None or (now := _clocks()) is None:
            return None
        elapsed, busy, own = (after - before for after, before in zip(now, self.start, strict=True))
        return max(0.0, (busy - own) / elapsed) if elapsed > 0 else None


def _clocks() -> tuple[float, float, float] | None:
    """Seconds of the clock, of all cores of the machine, and of this process with its finished children."""
    if not STAT.is_file():
        return None
    ticks = [int(value) for value in STAT.read_text().splitlines()[0].split()[1:]]
    busy = sum(value for i, value in enumerate(ticks[:GUEST]) if i not in IDLE) / os.sysconf("SC_CLK_TCK")
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.monotonic(), busy, sum(one.ru_utime + one.ru_stime for one in used)
