"""Which base files readers of a copy-on-write table see, by the names of its files and what its timeline says. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gapless.formats.hudi.names import METADATA_FOLDER, parse_file_name


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BaseFile:
    """A Parquet file of a file group."""

    partition: str
    """Its folder below the base path; empty for a table without partitions."""
    file_id: str
    instant: str
    """The one that its name says."""
    name: str
    size: int
    """Bytes."""

    @property
    def path(self) -> str:
        """Below the base path."""
        return f"{self.partition}/{self.name}" if self.partition else self.name

    @property
    def group(self) -> tuple[str, str]:
        """The file group that it is of."""
        return self.partition, self.file_id


def base_files(objects: Iterable[tuple[str, int]]) -> list[BaseFile]:
    """The base files among objects below the base path, each a path and its bytes, in order."""
    found = []
    for path, size in objects:
        partition, _, name = path.rpartition("/")
        if path.startswith(f"{METADATA_FOLDER}/") or (parsed := parse_file_name(name)) is None:
            continue
        found.append(BaseFile(partition=partition, file_id=parsed.file_id, instant=parsed.instant, name=name, size=size))
    return sorted(found)


def live_files(files: Iterable[BaseFile], completed: Collection[str], replaced: Collection[tuple[str, str]]) -> list[BaseFile]:
    """The newest file of each group that was not replaced, of those whose instant is completed, or comes before the timeline's first.

    `completed` are the instants, as file names say them, of the commits of the timeline.

    >>> files = base_files((f"x1_0-0-0_2026010500000000{n}.parquet", 1) for n in range(4))
    >>> [one.instant[-1] for one in live_files(files, {"20260105000000001", "20260105000000002"}, ())]
    ['2']
    """
    first = min(completed, default=None)
    newest: dict[tuple[str, str], BaseFile] = {}
    for one in files:
        is_seen = first is not None and (one.instant < first or one.instant in completed)
        if is_seen and one.group not in replaced:
            known = newest.get(one.group)
            if known is None or known.instant < one.instant:
                newest[one.group] = one
    return sorted(newest.values())
