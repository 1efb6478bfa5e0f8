"""What lies in a folder, to the byte."""

from __future__ import annotations

from pathlib import Path


def bytes_below(folder: Path | str) -> dict[str, bytes]:
    """Every file below a folder, by its path there."""
    root = Path(folder)
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
