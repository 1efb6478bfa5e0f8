"""Table properties: their names, defaults and checks.

Keyword options of public functions as one value: a TypedDict that is checked, completed and handed on whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, cast, get_args

from gapless.errors import InvalidOption, nearest, one_of
from gapless.model.publishing import (
    ICEBERG_VERSION,
    PublishedFormat,
    PublishSettings,
    parse_catalog,
    parse_iceberg_version,
    parse_partition,
    parse_publish,
)

OnOverlap = Literal["reject", "skip", "replace", "allow"]
OVERLAP_POLICIES: tuple[OnOverlap, ...] = get_args(OnOverlap)
Codec = Literal["fastest", "balanced", "smallest", "zstd", "snappy", "lz4", "gzip", "none"]
CODECS: tuple[Codec, ...] = get_args(Codec)

MAX_INLINE_BYTES = 1 << 20
"""The largest `inline_bytes`."""


def parse_on_overlap(value: object) -> OnOverlap:
    """Check an overlap policy; raises InvalidOption."""
    return one_of("on_overlap", value, OVERLAP_POLICIES, "It says what an append does with buckets that are covered")


def _parse_count(name: str, value: object, least: int) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number < 2**31:
        raise InvalidOption(
            f"{name}={value!r} is no whole number from {least} up",
            fix=f"Pass one, such as {name}=100",
            option=name,
            value=value,
        )
    return number


def _parse_inline_bytes(value: object) -> int:
    number = _parse_count("inline_bytes", value, 0)
    if number > MAX_INLINE_BYTES:
        raise InvalidOption(
            f"inline_bytes={number:,} is more than {MAX_INLINE_BYTES:,}",
            why="Whoever opens the table reads all that lies in its log, wanted or not",
            fix="Pass a size at which a file of its own does not pay, such as inline_bytes=65_536",
            option="inline_bytes",
            value=value,
        )
    return number


def _parse_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(f"{name}={value!r} is neither True nor False", fix=f"Pass {name}=True", option=name, value=value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """What a table remembers of how it wants to be written."""

    on_overlap: OnOverlap = "reject"
    """What an append does with buckets that are already covered."""
    codec: Codec = "balanced"
    """How new segments are encoded: for speed, for size or between; or with one Parquet compression (zstd at level 1)."""
    checkpoint_interval: int = 100
    """Commits from one log checkpoint to the next; 0 for none."""
    operation_retention_days: int = 90
    """How long, by commit time, the operation ids of jobs are remembered at least; those of streams are for ever."""
    unique: bool = False
    """Whether no two rows may have one identity and index value."""

    auto_compact_segments: int = 0
    """Small segments that may gather before an append compacts them; 0 for never. Looked at once in half as many commits."""
    auto_compact_bytes: int = 32 << 20
    """Bytes of Parquet that such a compaction reads at most."""
    inline_bytes: int = 0
    """Appends whose segment and its coverage have at most so many bytes lie in the commit itself; 0 for none."""
    publish: tuple[PublishedFormat, ...] = ()
    """The formats in which the table's files are described to other readers, after each commit."""
    publish_on_commit: bool = True
    """Whether whoever commits also publishes; else only `publish` and `gapless publish --follow` do."""
    iceberg_catalog: str = ""
    """The catalog that the table is published to as Iceberg, by the name that pyiceberg is configured for; empty for its own folder."""
    iceberg_table: str = ""
    """What the table is called in that catalog, as `namespace.name`."""
    iceberg_partition: str = ""
    """The partitions that readers of Iceberg are told, such as `day(ts), symbol`: of each file that lies in one, as its bounds say."""
    iceberg_version: int = ICEBERG_VERSION
    """The version of Iceberg's format that the table is published in."""

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Properties:
        """Check properties as a user gave them; raises InvalidOption."""
        known = {f.name for f in fields(cls)}
        for name in given:
            if name not in known:
                raise InvalidOption(f"property {name!r} is not known", fix=nearest(name, known), option=name, value=given[name])
        default = cls()
        codec = one_of("codec", given.get("codec", default.codec), CODECS)
        publish = parse_publish(given.get("publish", default.publish))
        inline_bytes = _parse_inline_bytes(given.get("inline_bytes", default.inline_bytes))
        if publish and inline_bytes:
            raise InvalidOption(
                f"inline_bytes={inline_bytes:,} and publish={list(publish)!r} exclude each other",
                why="Rows that lie in the log are in no file that readers of another format could read",
                fix="Set inline_bytes=0, or publish=[]",
                option="inline_bytes",
                value=inline_bytes,
            )
        partition = given.get("iceberg_partition", default.iceberg_partition)
        parse_partition(partition)
        return cls(
            on_overlap=parse_on_overlap(given.get("on_overlap", default.on_overlap)),
            codec=codec,
            checkpoint_interval=_parse_count(
                "checkpoint_interval", given.get("checkpoint_interval", default.checkpoint_interval), 0
            ),
            operation_retention_days=_parse_count(
                "operation_retention_days", given.get("operation_retention_days", default.operation_retention_days), 1
            ),
            unique=_parse_flag("unique", given.get("unique", default.unique)),
            auto_compact_segments=_parse_count(
                "auto_compact_segments", given.get("auto_compact_segments", default.auto_compact_segments), 0
            ),
            auto_compact_bytes=_parse_count(
                "auto_compact_bytes", given.get("auto_compact_bytes", default.auto_compact_bytes), 1
            ),
            inline_bytes=inline_bytes,
            publish=publish,
            publish_on_commit=_parse_flag("publish_on_commit", given.get("publish_on_commit", default.publish_on_commit)),
            iceberg_partition=partition,
            iceberg_version=parse_iceberg_version(given.get("iceberg_version", default.iceberg_version)),
            **parse_catalog(given.get("iceberg_catalog", ""), given.get("iceberg_table", "")),
        )

    @property
    def publishing(self) -> PublishSettings:
        """How the table is published."""
        return PublishSettings(
            formats=self.publish,
            on_commit=self.publish_on_commit,
            iceberg_catalog=self.iceberg_catalog,
            iceberg_table=self.iceberg_table,
            iceberg_partition=parse_partition(self.iceberg_partition),
        )

    def changed(self) -> dict[str, object]:
        """The properties that differ from their defaults, as the log stores them."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}


Options = TypeVar("Options", bound=Mapping[str, object])


def with_defaults(function: str, given: Options, defaults: Options) -> Options:
    """The options that a call gave, with the defaults of the others; raises InvalidOption for one that the function does not have.

    >>> with_defaults("scan", {"limti": 3}, {"limit": None})
    Traceback (most recent call last):
    gapless.errors.InvalidOption: scan() has no option 'limti'. Did you mean 'limit'?
    """
    for name, value in given.items():
        if name not in defaults:
            raise InvalidOption(f"{function}() has no option {name!r}", fix=nearest(name, defaults), option=name, value=value)
    return cast("Options", {**defaults, **given})
