"""What a run is asked for, looked at before anything is read."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.connect.sources.protocol import Source
from gapless.errors import InvalidOption, RetractingInput, SourceCannotReplay, one_of
from gapless.lake.catalog.catalog import LEASE_S
from gapless.lake.cursors import KINDS, Monotonic
from gapless.lake.pages import told_source
from gapless.lake.runs.progress import Watch
from gapless.lake.sources.dlt_source import DltSource
from gapless.lake.sources.spark_frame import SparkSource
from gapless.model.instant import NS_PER


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a caller asks for."""

    source: object
    pipeline: str
    cursor: Monotonic | str | None
    """A monotonic one, "opaque" or "snapshot"; None for rows that come without."""
    run: str
    node: str
    lease_s: float = LEASE_S
    progress: Watch | None = None

    @property
    def kind(self) -> str | None:
        """The kind of cursor."""
        return "monotonic" if isinstance(self.cursor, Monotonic) else self.cursor


def check_request(source: object, cursor: object) -> Monotonic | str | None:
    """The cursor of a run; that of a source of `gapless.connect` or dlt is opaque. Raises InvalidOption, SourceCannotReplay, RetractingInput."""
    if isinstance(source, Source | DltSource):
        if cursor not in (None, "opaque"):
            raise InvalidOption(
                f"cursor={cursor!r} does not go with a source of {'dlt' if isinstance(source, DltSource) else 'gapless.connect'}",
                why="It has a cursor of its own, which is opaque",
                fix="Leave cursor= out",
                option="cursor",
                value=cursor,
            )
        if isinstance(source, Source):
            _check_source(source)
        return "opaque"
    if cursor is None or isinstance(cursor, Monotonic):
        return cursor
    if isinstance(source, SparkSource):
        raise InvalidOption(
            f"cursor={cursor!r} does not go with a DataFrame of Spark",
            why="Its rows come without an order, and so without pages",
            fix="Pass gl.lake.Monotonic(column=…), or leave it out",
            option="cursor",
            value=cursor,
        )
    return one_of(
        "cursor", cursor, [one for one in KINDS if one != "monotonic"], "A monotonic one is a gl.lake.Monotonic(column=…)"
    )


def _check_source(source: Source) -> None:
    if not source.capabilities.replays:
        raise SourceCannotReplay(
            f"{told_source(source)} cannot be read again from a cursor",
            why="What was read and not committed would be lost in a crash",
            fix="Name its pages by a token or by a value of the rows",
            feature="runs from a source that does not replay",
        )
    if source.capabilities.retracts:
        raise RetractingInput(
            f"{told_source(source)} tells of rows that were changed or removed",
            why="A run adds rows; what is told to be removed would stay",
            fix="Open the source with on_change='skip' or 'error'",
            feature="runs from a source that retracts",
            column="_change_type",
        )


def lease_seconds(given: object) -> float:
    """How long a lease is to hold; raises InvalidOption."""
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 < given * NS_PER["s"] < 2**62:
        return float(given)
    raise InvalidOption(f"lease_s={given!r} is no number of seconds", fix="Pass such as 60", option="lease_s", value=given)
