"""What a compaction would do, in words, for every kind of table. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from gapless.tables.shared.findings import count


class PlannedBin(Protocol):
    """Data files that would be written anew together."""

    @property
    def files(self) -> Sequence[Any]:
        """The files."""
        ...

    @property
    def rows(self) -> int | None:
        """Their rows, where all of them say it."""
        ...

    @property
    def size(self) -> int:
        """Bytes of Parquet."""
        ...

    @property
    def causes(self) -> Mapping[Any, int]:
        """Why, with how many of its files each cause holds for."""
        ...


OneBin = TypeVar("OneBin", bound=PlannedBin)


def plan_text(
    bins: Sequence[OneBin],
    left: Mapping[str, Any],
    target_size: int,
    *,
    noun: str,
    rests: Mapping[Any, str],
    how: Callable[[OneBin], str] = lambda _bin: "",
) -> str:
    """A plan in words, a line for each bin and for each reason to leave files alone.

    `left` are files that stay, by path, with why, of which `rests` has the words; `noun` is what a file is called, and `how` ends a bin's line.
    """
    files = sum(len(one.files) for one in bins)
    lines = [f"{count(len(bins), 'bin')}: {count(files, noun)} of {files + len(left)}"]
    for number, one in enumerate(bins, 1):
        causes = ", ".join(f"{many} {cause}" for cause, many in one.causes.items())
        rows = "" if one.rows is None else f"{count(one.rows, 'row')}, "
        lines.append(
            f"  {number}. {count(len(one.files), noun)}, {rows}{mebibytes(one.size)}"
            f" towards {mebibytes(target_size)} each ({causes}){how(one)}"
        )
    lines += [f"  left: {count(many, noun)} {rests[rest]}" for rest, many in Counter(left.values()).items()]
    return "\n".join(lines)


def mebibytes(size: int) -> str:
    """Bytes for people, in MiB.

    >>> mebibytes(3 << 19)
    '1.5 MiB'
    """
    return f"{size / 2**20:,.1f} MiB"
