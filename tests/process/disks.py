"""Small file systems that a test may fill, remount and break. They need root and the right to mount (Linux)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def can_mount() -> bool:
    """Whether this process may mount: root, with the capability."""
    if os.name != "posix" or os.geteuid() != 0:
        return False
    # The effective capabilities of this process; CAP_SYS_ADMIN is bit 21.
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return any(int(line.split()[1], 16) >> 21 & 1 for line in lines if line.startswith("CapEff:"))


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """An empty tmpfs of `size_bytes` at `folder`, unmounted at the end."""
    folder.mkdir(exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "gapless-test", str(folder))
    try:
        yield folder
    finally:
        _run("umount", "-l", str(folder))


def resize(folder: Path, size_bytes: int) -> None:
    """Give it another size."""
    _run("mount", "-o", f"remount,size={size_bytes}", str(folder))


def set_writable(folder: Path, *, writable: bool) -> None:
    """Remount it read-only or for writing."""
    _run("mount", "-o", f"remount,{'rw' if writable else 'ro'}", str(folder))


def free_bytes(folder: Path) -> int:
    """What may still be written to it."""
    info = os.statvfs(folder)
    return info.f_bavail * info.f_frsize


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
