"""From which commit on a table has in-commit timestamps: two properties that only the commit itself can fill in."""

from __future__ import annotations

from dataclasses import replace

from gapless.dialects.delta.actions import Metadata
from gapless.model.instant import NS_PER

ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIME = "delta.inCommitTimestampEnablementTimestamp"
_OPEN = "00"
"""What the properties are until the version and the time of the commit are known: a number, in no spelling that a writer gives it."""


def opened(metadata: Metadata) -> Metadata:
    """The metadata of a commit that switches in-commit timestamps on in a table that has commits without them."""
    return replace(metadata, configuration={**metadata.configuration, ENABLEMENT_VERSION: _OPEN, ENABLEMENT_TIME: _OPEN})


def dated(metadata: Metadata, version: int, time_ns: int) -> Metadata:
    """The same metadata; where it was `opened`, with the version and the commit time (nanoseconds since 1970 UTC) that it has at last."""
    if metadata.configuration.get(ENABLEMENT_VERSION) != _OPEN:
        return metadata
    told = {ENABLEMENT_VERSION: str(version), ENABLEMENT_TIME: str(time_ns // NS_PER["ms"])}
    return replace(metadata, configuration={**metadata.configuration, **told})
