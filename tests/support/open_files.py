"""Which files this process has open, on Linux."""

from __future__ import annotations

from pathlib import Path


def open_below(place: Path) -> list[str]:
    """The files below a folder that are open here."""
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        try:
            target = handle.readlink()
        except FileNotFoundError:  # that of the listing itself
            continue
        if target.is_relative_to(place):
            found.append(str(target))
    return found
