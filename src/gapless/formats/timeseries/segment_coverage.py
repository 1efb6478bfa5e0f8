"""What a segment covers, from its commit or its sidecar; where that is lost, an error that names the command which makes it again. Pure."""

from __future__ import annotations

import shlex

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.codec import decode
from gapless.errors import CorruptTable
from gapless.model.index import EntityType
from gapless.model.segment import InlineCoverage, Segment, SidecarCoverage, check

_MEMORY = "memory:"
_WRITTEN_SO = "Scans still work: append what they read to a new table"


def repair_command(url: str, *, deep: bool = False) -> str:
    """The command that repairs the table at `url`, quoted for a shell; of a table in this process's memory, the call.

    >>> repair_command("/data/my prices")
    "gapless repair '/data/my prices' --apply"
    """
    if url.startswith(_MEMORY):
        return f"gl.repair({url!r}, apply=True{', deep=True' if deep else ''})"
    return f"gapless repair {shlex.quote(url)}{' --deep' if deep else ''} --apply"


def read_coverage(segment: Segment, stored: bytes | None, types: tuple[EntityType, ...], url: str) -> CoverageMap:
    """What a segment of the table at `url` covers; `stored` are its sidecar's bytes, None where it has none or nothing is stored there.

    Raises CorruptTable, which says what mends it.
    """
    match segment.coverage:
        case InlineCoverage(data):
            return _decoded(segment, data, types, segment.path, _WRITTEN_SO)
        case SidecarCoverage(path, expected):
            if stored is None:
                raise lost_sidecar(segment, path, url)
            try:
                check(stored, expected, path)
            except CorruptTable as error:
                raise CorruptTable(error.what, why=error.why, fix=_made_again(url), path=path) from error
            return _decoded(segment, stored, types, path, _fix(segment, url))
        case None:
            raise CorruptTable(
                f"the coverage of segment {segment.path} is lost",
                why="The log names none, so no append can be checked against it",
                fix=_WRITTEN_SO,
                path=segment.path,
            )


def lost_sidecar(segment: Segment, path: str, url: str) -> CorruptTable:
    """The error for a sidecar that is not there."""
    return CorruptTable(
        f"the coverage in {path} is lost",
        why=f"The log names it for segment {segment.path}, but nothing is stored there",
        fix=_made_again(url),
        path=path,
    )


def altered_sidecar(error: CorruptTable, url: str) -> CorruptTable:
    """The error for a part of a sidecar that has not the checksum which its index names, as `error` says."""
    return CorruptTable(error.what, why=error.why, fix=_made_again(url), path=error.path)


def foreign_coverage(segment: Segment, url: str) -> CorruptTable:
    """The error for coverage that the segment's rows cannot have."""
    place = segment.coverage.path if isinstance(segment.coverage, SidecarCoverage) else segment.path
    return CorruptTable(
        f"the coverage in {place} is not that of segment {segment.path}",
        why="It covers another identity, or index values outside the segment's range",
        fix=_fix(segment, url, deep=True),  # only its rows show that it is another's
        path=place,
    )


def _decoded(segment: Segment, data: bytes, types: tuple[EntityType, ...], path: str, fix: str) -> CoverageMap:
    try:
        return decode(data, types, path=path)
    except CorruptTable as error:
        raise CorruptTable(f"{error.what}, that of segment {segment.path}", why=error.why, fix=fix, path=path) from error


def _fix(segment: Segment, url: str, *, deep: bool = False) -> str:
    """What mends coverage that has the checksum it should have, if it should have any: with one it was written as it is."""
    is_free = isinstance(segment.coverage, SidecarCoverage) and segment.coverage.checksum is None
    return _made_again(url, deep=deep) if is_free else _WRITTEN_SO


def _made_again(url: str, *, deep: bool = False) -> str:
    return f"`{repair_command(url, deep=deep)}` makes it again from the segment's rows; scans still work"
