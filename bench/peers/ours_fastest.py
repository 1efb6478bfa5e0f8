"""gapless, with `codec="fastest"`."""

from __future__ import annotations

from typing import Any, ClassVar

from peers.ours import Gapless


class Fastest(Gapless):
    only: ClassVar[frozenset[str]] = frozenset({"bulk", "forty", "day", "day_forty", "by_hour"})
    properties: ClassVar[dict[str, Any]] = {"codec": "fastest"}


CONTENDER = Fastest
