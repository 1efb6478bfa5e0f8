"""Sinks and sources: two-phase commit into tables, incremental reads out of them, exactly once; as `gl.connect`."""

from __future__ import annotations

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
