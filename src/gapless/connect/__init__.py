"""Sinks and sources: two-phase commit into tables, incremental reads out of them, exactly once; as `gl.connect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless._names import names_of

if TYPE_CHECKING:
    from gapless.connect.checkpoint_store import Checkpoint, CheckpointStore
    from gapless.connect.identity import SinkIdentity
    from gapless.connect.runner import Runner, RunnerReport
    from gapless.connect.sinks.open import sink
    from gapless.connect.sinks.protocol import CommitInfo, Sink, SinkCapabilities
    from gapless.connect.sources.http_pages import AfterValue, LinkHeader, NextLink, Offset, PageNumber, PageToken
    from gapless.connect.sources.open import source
    from gapless.connect.sources.protocol import Cursor, Polled, Source, SourceCapabilities
    from gapless.tables.shared.prepared import PreparedCommit, PreparedFile

__all__ = [
    "AfterValue",
    "Checkpoint",
    "CheckpointStore",
    "CommitInfo",
    "Cursor",
    "LinkHeader",
    "NextLink",
    "Offset",
    "PageNumber",
    "PageToken",
    "Polled",
    "PreparedCommit",
    "PreparedFile",
    "Runner",
    "RunnerReport",
    "Sink",
    "SinkCapabilities",
    "SinkIdentity",
    "Source",
    "SourceCapabilities",
    "sink",
    "source",
]

_NAMES_OF = {
    "gapless.connect.checkpoint_store": (
        "Checkpoint",
        "CheckpointStore",
    ),
    "gapless.connect.identity": ("SinkIdentity",),
    "gapless.connect.runner": (
        "Runner",
        "RunnerReport",
    ),
    "gapless.connect.sinks.open": ("sink",),
    "gapless.connect.sinks.protocol": (
        "CommitInfo",
        "Sink",
        "SinkCapabilities",
    ),
    "gapless.connect.sources.http_pages": (
        "AfterValue",
        "LinkHeader",
        "NextLink",
        "Offset",
        "PageNumber",
        "PageToken",
    ),
    "gapless.connect.sources.open": ("source",),
    "gapless.connect.sources.protocol": (
        "Cursor",
        "Polled",
        "Source",
        "SourceCapabilities",
    ),
    "gapless.tables.shared.prepared": (
        "PreparedCommit",
        "PreparedFile",
    ),
}

__getattr__ = names_of(__name__, _NAMES_OF, globals())
