"""gapless, where the rows of small appends lie in the commits."""

from __future__ import annotations

from typing import Any, ClassVar

from peers.ours import Gapless


class Inlined(Gapless):
    only: ClassVar[frozenset[str]] = frozenset({"tiny", "writers"})
    durability = "the commit that holds the rows and its folder are synced"
    properties: ClassVar[dict[str, Any]] = {"inline_bytes": 65_536}


CONTENDER = Inlined
