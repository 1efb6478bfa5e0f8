"""Hidden partitions of snapshots: columns and transforms of times, by which files are kept apart. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gapless.errors import InvalidOption, NotSupported, nearest
from gapless.tables.shared.sql import quoted

TRANSFORMS = ("year", "month", "day", "hour")
_FORMATS = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%d-%H"}
_OTHERS = ("bucket", "truncate")
_TEXT = re.compile(r"(?:(?P<transform>\w+)\((?P<inner>[^()]*)\)|(?P<column>[a-z_][a-z0-9_]*))")


@dataclass(frozen=True, slots=True)
class Partition:
    """One of a table's partition fields."""

    column: str
    transform: str | None = None
    """Of a time, in UTC where it has a zone; None for the value itself."""

    @property
    def text(self) -> str:
        """As it is written."""
        return self.column if self.transform is None else f"{self.transform}({self.column})"

    @classmethod
    def parse(cls, text: object) -> Partition:
        """Read "day(ts)" or "site". Raises InvalidOption; NotSupported for Iceberg's transforms that a lake does not have."""
        found = _TEXT.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise InvalidOption(
                f"partition_by has {text!r}", why="It is a column, or a transform of one", fix="Write such as 'day(ts)'",
                option="partition_by", value=text,
            )  # fmt: skip
        if found["column"]:
            return cls(found["column"])
        transform, inner = found["transform"], found["inner"].strip()
        if transform in _OTHERS:
            raise NotSupported(
                f"a lake has no partitions by {transform}",
                why=f"It has columns, and {', '.join(TRANSFORMS)} of times",
                fix="Leave it out: within a partition rows are in the order of the key",
                feature=f"{transform} partitions in a lake",
            )
        if transform not in TRANSFORMS or not re.fullmatch(r"[a-z_][a-z0-9_]*", inner):
            raise InvalidOption(
                f"partition_by has {text!r}", fix=nearest(str(transform), TRANSFORMS), option="partition_by", value=text
            )
        return cls(inner, transform)


def parse_partitions(given: object) -> tuple[Partition, ...]:
    """Read one text, or several. Raises as `Partition.parse`."""
    texts = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else (given,)
    return tuple(map(Partition.parse, texts))


def is_within(path: str, partitions: Sequence[str]) -> bool:
    """Whether a file of a snapshot, or a partition, lies in one of these partitions: folders below that of the snapshot, at any level.

    >>> is_within("ts_day=2026-11-30/site=a/part-0.parquet", ["ts_day=2026-11-30"])
    True
    """
    return any(f"{path}/".startswith(f"{one}/") for one in partitions)


def check_partition_names(table: str, given: object) -> tuple[str, ...]:
    """Names of partitions, each as its folder: `ts_day=2026-11-30`, or `ts_day=2026-11-30/site=a`. Raises InvalidOption."""
    names = () if isinstance(given, str) or not isinstance(given, Sequence) else tuple(given)
    if not names or not all(isinstance(one, str) and all("=" in part for part in one.split("/")) for one in names):
        raise InvalidOption(
            f"{given!r} names no partitions of {table!r}",
            why="They are the folders of a snapshot",
            fix="Pass such as ['ts_day=2026-11-30']",
            option="partitions",
            value=given,
        )
    return names


def partition_sql(partitions: Sequence[Partition]) -> str:
    """A text for each row: the folder of its partition, such as `ts_day=2026-11-30/site=a%2Fb`."""
    if not partitions:
        return "''"
    parts = (f"'{_name(one)}=' || {_value(one)}" for one in partitions)
    return " || '/' || ".join(parts)


def _name(one: Partition) -> str:
    return one.column if one.transform is None else f"{one.column}_{one.transform}"


def _value(one: Partition) -> str:
    column = quoted(one.column)
    told = (
        f"CAST({column} AS VARCHAR)"
        if one.transform is None
        else f"strftime(CAST({column} AS TIMESTAMP), '{_FORMATS[one.transform]}')"
    )
    # An empty text is a folder of no name; one that is too long for a file system is called after its digest.
    safe = f"replace(url_encode({told}), '.', '%2E')"
    short = f"CASE WHEN length({safe}) > 100 THEN 'sha256-' || left(sha256({told}), 16) ELSE {safe} END"
    return f"COALESCE(NULLIF({short}, ''), CASE WHEN {column} IS NULL THEN '__null__' ELSE '__empty__' END)"
