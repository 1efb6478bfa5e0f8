"""Moments of a pipeline, by what has just been stored, and how something happens at one: a kill, or a reply that is lost."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gapless.model.protocols import Store

Stored = Callable[[str, bytes], bool]
"""Of the path and bytes of an object, whether it is the one that is meant."""


def _is_manifest(path: str, _data: bytes) -> bool:
    return re.fullmatch(r"\d{20}\.json", path) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """After an object was stored in one of a pipeline's places."""

    place: str
    """What the URL of the place ends in, and maybe a folder of ours behind it."""
    stored: Stored


_COMMIT = re.compile(r"_\w+_log/\d+\.json|metadata/v\d+\.metadata\.json|\.hoodie/timeline/\d+_\d+\.(replace)?commit")
_OWN = "/.hoodie/gapless"
"""The folder of a Hudi table that is ours, in which what is prepared lies."""
POINTS = {
    "data files": Point(place="sink", stored=lambda path, _: path.endswith(".parquet") and "_log/" not in path),
    "prepare stored": Point(place="sink", stored=lambda path, _: path.startswith("_prepared/") and path.endswith(".json")),
    "recorded": Point(place="checkpoints", stored=_is_manifest),
    "marker": Point(place="checkpoints", stored=lambda path, data: path.endswith(".decided") and b'"commit": true' in data),
    "table commit": Point(place="sink", stored=lambda path, _: _COMMIT.fullmatch(path) is not None),
    "status recorded": Point(place="checkpoints", stored=lambda path, _: path.endswith(".done")),
}

HUDI_POINTS = {
    "locked": Point(place="sink", stored=lambda path, _: path == ".hoodie/.locks/table_lock.json"),
    "lock file": Point(place="sink", stored=lambda path, _: path == ".hoodie/lock"),
    "attempt": Point(place="sink", stored=lambda path, _: path.startswith(".hoodie/gapless/attempts/")),
    "base file": Point(place="sink", stored=lambda path, _: re.fullmatch(r"\w[\w-]*_[\d-]+_\d{17}\.parquet", path) is not None),
    "claimed": Point(place="sink", stored=lambda path, data: path == ".hoodie/gapless/claim.json" and b'"open": true' in data),
    "claim closed": Point(
        place="sink", stored=lambda path, data: path == ".hoodie/gapless/claim.json" and b'"open": false' in data
    ),
}
"""What the commit of a Hudi sink stores besides."""
ALL_POINTS = POINTS | HUDI_POINTS


@dataclass(slots=True)
class Watch:
    """Calls `act` once, when the object of a point is stored for the `nth` time. What is stored twice under one name counts once."""

    point: Point
    nth: int
    act: Callable[[str], None]
    seen: set[str] = field(default_factory=set)

    def notice(self, store: Store, path: str, data: bytes) -> None:
        if store.url.removesuffix(_OWN).endswith(self.point.place) and path not in self.seen and self.point.stored(path, data):
            self.seen.add(path)
            if len(self.seen) == self.nth:
                self.act(path)


def watched(kind: type[Store], watch: Watch, replace: Callable[[type, str, Any], None]) -> None:
    """Have a watch look at each object that stores of this class have stored: the real ones, as they write when nobody looks.

    `replace` sets an attribute of the class.
    """
    # A store with deferred writes does these two by `_put` too; what it was told to settle is durable after `settle`.
    for name in ("put", "put_after", "put_if_match"):
        if (put := getattr(kind, name, None)) is not None:
            replace(kind, name, _watching_put(put, watch))
    if (settle := getattr(kind, "settle", None)) is not None:
        replace(kind, "settle", _watching_settle(settle, watch))


def _watching_put(put: Any, watch: Watch) -> Any:
    @functools.wraps(put)
    def watching(self: Store, path: str, data: bytes | memoryview, *rest: Any, **options: Any) -> Any:
        found = put(self, path, data, *rest, **options)
        watch.notice(self, path, bytes(data))
        return found

    return watching


def _watching_settle(settle: Any, watch: Watch) -> Any:
    @functools.wraps(settle)
    def watching(self: Store, paths: Iterable[str]) -> None:
        settled = list(paths)
        settle(self, settled)
        for path in settled:
            watch.notice(self, path, b"")

    return watching
