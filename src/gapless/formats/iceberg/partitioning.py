"""Hidden partitions as users spell them: `day(ts)`, `bucket(16, id)`, `DAYS(ts)`, `region`. Pure (the table spec, "Partition Transforms")."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gapless.errors import InvalidOption, nearest

_TEMPORAL = {
    spelling: transform for transform in ("year", "month", "day", "hour") for spelling in (transform, f"{transform}s")
} | {"date": "day", "date_hour": "hour"}
_WITH_NUMBER = {"bucket": "bucket", "truncate": "truncate", "trunc": "truncate"}
TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket", "truncate")
_CALL = re.compile(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*", re.DOTALL)
_EXAMPLE = 'Pass such as partition_by=["day(ts)", "bucket(16, id)"]'


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionColumn:
    """One column of partition values."""

    source: str
    """The column whose values make it; a dot leads into a struct."""
    transform: str
    """As metadata spells it: `day`, `bucket[16]`, `truncate[4]`, `identity`."""
    name: str
    """What metadata calls it, as Iceberg's own writers do."""


def parse_partition_by(given: object) -> tuple[PartitionColumn, ...]:
    """The partition columns that an option names: one text, in which commas part them, or a list of texts. Raises InvalidOption.

    >>> [(one.name, one.transform) for one in parse_partition_by("DAYS(ts), bucket(16, id)")]
    [('ts_day', 'day'), ('id_bucket', 'bucket[16]')]
    """
    texts = _parts(given) if isinstance(given, str) else list(given) if isinstance(given, list | tuple) else [given]
    found = tuple(_parse(text, given) for text in texts)
    names = [one.name for one in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _refuse(given, f"The partition {twice!r} comes twice")
    return found


def _parts(text: str) -> list[str]:
    """What commas outside parentheses part."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _parse(text: object, given: object) -> PartitionColumn:
    if not isinstance(text, str) or not text.strip():
        raise _refuse(given, "Each partition is a text")
    match = _CALL.fullmatch(text)
    if match is None:
        column = text.strip()
        return PartitionColumn(source=column, transform="identity", name=column)
    word, inside = match[1].lower(), [part.strip() for part in match[2].split(",")]
    if word == "identity" and len(inside) == 1:
        return PartitionColumn(source=inside[0], transform="identity", name=inside[0])
    if word in _TEMPORAL and len(inside) == 1 and inside[0]:
        transform = _TEMPORAL[word]
        return PartitionColumn(source=inside[0], transform=transform, name=f"{inside[0]}_{transform}")
    if word in _WITH_NUMBER:
        return _with_number(_WITH_NUMBER[word], inside, given)
    known = (*TRANSFORMS, *_TEMPORAL)
    raise _refuse(given, f"{text.strip()!r} is no transform. {nearest(word, known)}")


def _with_number(transform: str, inside: Sequence[str], given: object) -> PartitionColumn:
    """Spark says the number first, Trino the column."""
    numbers = [part for part in inside if part.isascii() and part.isdigit() and int(part) > 0]
    columns = [part for part in inside if part not in numbers and part]
    if len(inside) != 2 or len(numbers) != 1 or len(columns) != 1:
        raise _refuse(given, f"{transform} takes a number from 1 and a column")
    suffix = "bucket" if transform == "bucket" else "trunc"
    return PartitionColumn(source=columns[0], transform=f"{transform}[{numbers[0]}]", name=f"{columns[0]}_{suffix}")


def _refuse(given: object, why: str) -> InvalidOption:
    return InvalidOption(
        f"partition_by={given!r} names no partitions", why=why, fix=_EXAMPLE, option="partition_by", value=given
    )
