"""How long a writer may take before others may clean up behind it."""

from __future__ import annotations

from gapless.model.instant import NS_PER_DAY

WRITER_HORIZON_NS = NS_PER_DAY
"""Younger than this, a file that no version names may belong to a commit under way, and a commit file is not removed."""


def is_old(now_ns: int, then_ns: int) -> bool:
    """Whether so much time may have passed since `then_ns` (since 1970 UTC) that others cleaned up meanwhile.

    Half the horizon, since the clocks of two machines differ; if they differ by more than that, nothing is certain.
    """
    return abs(now_ns - then_ns) >= WRITER_HORIZON_NS // 2
