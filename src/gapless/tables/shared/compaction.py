"""What a compaction shall do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from gapless.errors import InvalidOption, UnsupportedType, nearest
from gapless.files.sort.curve_sort import MAX_COLUMNS, has_rank
from gapless.model.index import Bucket, IndexSpec, parse_bucket
from gapless.model.properties import CODECS, Codec
from gapless.predicate.range import check_columns

TARGET_BYTES = 128 << 20
"""What a compacted segment aims at, in bytes of Parquet."""
SORT_BYTES = 256 << 20
"""Arrow memory of the rows that are sorted at once; a compaction holds up to about three times as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    """How segments are laid out anew, and which; checked by `parse`."""

    target_size: int = TARGET_BYTES
    """Bytes of Parquet that a segment shall have."""
    window: Bucket | None = None
    """No segment that a compaction writes crosses an edge of these windows of the index."""
    codec: Codec | None = None
    """Segments of another codec are written again with this one; None keeps them, and takes the table's for the new."""
    cluster_by: tuple[str, ...] = ()
    """Rows lie along the z-order of these columns, in place of entity and index; segments that do not are written again."""
    resort: bool = False
    """Segments of any size that scans must sort, by themselves or because they overlap, are written again."""
    max_bytes: int | None = None
    """Bytes of Parquet to read at most; what is left over waits for another time."""
    sort_bytes: int = SORT_BYTES

    @classmethod
    def parse(
        cls,
        *,
        target_size: object = TARGET_BYTES,
        window: object = None,
        codec: object = None,
        cluster_by: object = (),
        resort: bool = False,
        index: IndexSpec,
        schema: pa.Schema | None,
    ) -> CompactOptions:
        """Check options as a user gave them: `window` as a bucket is spelled, `cluster_by` one to four columns.

        Raises InvalidOption, UnknownColumn, and UnsupportedType for a column whose values have no order.
        """
        if codec is not None and codec not in CODECS:
            raise InvalidOption(f"codec {codec!r} is not known", fix=nearest(str(codec), CODECS), option="codec", value=codec)
        columns = cluster_columns(cluster_by, schema or pa.schema([]))
        if columns and resort:
            raise InvalidOption(
                "resort=True with cluster_by",
                why="Rows lie either by entity and index, or along the z-order of other columns",
                fix="Pass one of the two",
                option="resort",
                value=resort,
            )
        return cls(
            target_size=parse_target_size(target_size),
            window=None if window is None else _window(window, index),
            codec=codec,
            cluster_by=columns,
            resort=resort,
        )


def parse_target_size(given: object) -> int:
    """Bytes that a file shall have; raises InvalidOption."""
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise InvalidOption(
            f"target_size={given!r} is no number of bytes above zero",
            fix="Pass bytes of Parquet, such as target_size=128 << 20",
            option="target_size",
            value=given,
        )
    return given


def _window(given: object, index: IndexSpec) -> Bucket:
    text = given if isinstance(given, int) and not isinstance(given, bool) else str(given)
    try:
        return parse_bucket(text, index.type, index.timezone)
    except InvalidOption as error:
        what = f"window {given!r} is no stretch of the index {index.column!r}"
        raise InvalidOption(what, why=error.why, fix='Pass one such as window="1d"', option="window", value=given) from error


def cluster_columns(given: object, schema: pa.Schema, option: str = "cluster_by", least: int = 0) -> tuple[str, ...]:
    """The columns along whose curve rows shall lie, as the argument `option` names them, at least so many.

    Raises InvalidOption, UnknownColumn, and UnsupportedType for a column whose values have no order.
    """
    names: tuple[object, ...] = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    many = least <= len(names) <= MAX_COLUMNS
    if not many or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise InvalidOption(
            f"{option}={given!r} is no list of one to {MAX_COLUMNS} different columns",
            why="Each further column halves what the z-order can tell apart of the others",
            fix="Pass the columns that filters name most",
            option=option,
            value=given,
        )
    columns = tuple(map(str, names))
    check_columns(columns, schema)
    for name in columns:
        if not has_rank(schema.field(name).type):
            raise UnsupportedType(
                f"column {name!r} of type {schema.field(name).type} cannot be clustered by",
                why="Its values have no order",
                fix="Name columns of numbers, texts, times or booleans",
                column=name,
                type=str(schema.field(name).type),
            )
    return columns


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """A bin that was not laid out anew after all."""

    paths: tuple[str, ...]
    """Its segments, or those of them that are to blame."""
    why: str
    overtaken: bool = False
    """Whether other changes came first, and nothing is wrong."""


MAX_CONFLICTS = 5
"""How many commits in a row may be lost to others' before the bins of the last one are given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """What one compaction did."""

    version: int
    """The table's version after it."""
    bins: int = 0
    """How many bins were committed."""
    segments_before: int = 0
    """Segments that were replaced,"""
    segments_after: int = 0
    """and those that took their place."""
    bytes_before: int = 0
    """Bytes of Parquet in the segments before,"""
    bytes_after: int = 0
    """and in those after."""
    rows: int = 0
    """Rows in them."""
    given_up: tuple[GivenUp, ...] = ()
    """Bins that were not laid out anew after all, with why: their segments are what they were."""
