"""What processes have used, from /proc: processor time, and the peak of resident memory since it was last set back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def family(roots: Iterable[int]) -> list[int]:
    """These processes and all that descend from them."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, IndexError, ValueError):
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
    return sorted(set(_below(roots, children)))


def _below(roots: Iterable[int], children: dict[int, list[int]]) -> Iterator[int]:
    for root in roots:
        yield root
        yield from _below(children.get(root, ()), children)


def processor_seconds(pids: Iterable[int]) -> float:
    """Processor time of all threads of these processes, and of their children that have ended."""
    total = 0
    for pid in pids:
        with suppress(OSError, IndexError):
            total += sum(map(int, _stat(pid)[11:15]))
    return total / _TICK


def forget_peaks(pids: Iterable[int]) -> None:
    """Let the peak of each process begin at what it holds now."""
    for pid in pids:
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def resident(pids: Iterable[int], *, peak: bool) -> int:
    """Bytes resident, now or at the peak, added up; memory that processes share counts once for each."""
    return sum(_status(pid, "VmHWM:" if peak else "VmRSS:") for pid in pids)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on; the name before them may hold blanks."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _status(pid: int, key: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(key):
                return int(line.split()[1]) << 10
    return 0
