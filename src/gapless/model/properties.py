"""Properties of a table: what users may set, with their defaults, checked at birth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from gapless.errors import InvalidOption, NotSupported, nearest

OnOverlap = Literal["reject", "skip", "allow"]
OVERLAP_POLICIES: tuple[OnOverlap, ...] = get_args(OnOverlap)
Codec = Literal["zstd", "snappy", "lz4", "gzip", "none"]
CODECS: tuple[Codec, ...] = get_args(Codec)


def parse_on_overlap(value: object) -> OnOverlap:
    """Check an overlap policy; raises InvalidOption, or NotSupported for "replace"."""
    if value == "replace":
        raise NotSupported(
            "on_overlap='replace' is not in this release",
            why="Corrections (replace, upsert, delete) are still to come",
            fix="Use 'reject', 'skip' or 'allow'",
            feature="on_overlap=replace",
        )
    for policy in OVERLAP_POLICIES:
        if value == policy:
            return policy
    raise InvalidOption(
        f"on_overlap={value!r} is no overlap policy",
        fix=nearest(str(value), OVERLAP_POLICIES),
        option="on_overlap",
        value=value,
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """What a table remembers of how it wants to be written."""

    on_overlap: OnOverlap = "reject"
    """What an append does with buckets that are already covered."""
    codec: Codec = "zstd"
    """Parquet compression of new segments (zstd at level 1)."""
    checkpoint_interval: int = 100
    """Commits from one log checkpoint to the next; 0 for none."""
    operation_retention_days: int = 90
    """How long, by commit time, the operation ids of jobs are remembered at least; those of streams are for ever."""

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Properties:
        """Check properties as a user gave them; raises InvalidOption, or NotSupported for `unique`."""
        known = {f.name for f in fields(cls)} | {"unique"}
        for name in given:
            if name not in known:
                raise InvalidOption(f"property {name!r} is not known", fix=nearest(name, known), option=name, value=given[name])
        if given.get("unique", False) is not False:
            raise NotSupported(
                "unique=True is not in this release",
                why="Unique keys are enforced by upsert and by a check at each append, which are still to come",
                fix="Leave it out; on_overlap='reject' already refuses a bucket that arrives twice",
                feature="unique",
            )
        default = cls()
        codec = given.get("codec", default.codec)
        if codec not in CODECS:
            raise InvalidOption(f"codec {codec!r} is not known", fix=nearest(str(codec), CODECS), option="codec", value=codec)
        return cls(
            on_overlap=parse_on_overlap(given.get("on_overlap", default.on_overlap)),
            codec=codec,
            checkpoint_interval=_parse_count(
                "checkpoint_interval", given.get("checkpoint_interval", default.checkpoint_interval), 0
            ),
            operation_retention_days=_parse_count(
                "operation_retention_days", given.get("operation_retention_days", default.operation_retention_days), 1
            ),
        )

    def changed(self) -> dict[str, object]:
        """The properties that differ from their defaults, as the log stores them."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
