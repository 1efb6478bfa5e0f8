"""Stores for tests: one in a dict, one in front of another that passes calls on, and one that fails, from a seed, as networks do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log
from random import Random
from threading import Lock
from typing import TypeVar

from gapless.errors import (
    AccessDenied,
    NotSupported,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    StorageFull,
    StoreError,
    StoreUnavailable,
)
from gapless.model.protocols import Capabilities, ObjectInfo, PutMode, ReplacesIfMatch, Store, TaggedObject, replaces_if_match
from gapless.store.location import (
    check_new_path,
    check_path,
    check_range,
    content_etag,
    folder_prefix,
    object_changed,
    resolve_range,
)
from gapless.testing.simulation.timeline import START_NS, Timeline


class DictStore:
    """A Store over a dict of its own: gone with the object. Raises as the Store protocol says."""

    url = "sim://table"
    capabilities = Capabilities(put_if_absent=True, durable=False, survives_fork=True, put_if_match=True)

    def __init__(self, now_ns: Callable[[], int] = lambda: START_NS) -> None:
        """Start empty; `now_ns` dates what is written."""
        self.objects: dict[str, tuple[bytes, int]] = {}
        """By path: the bytes, and when they were written (nanoseconds since 1970 UTC)."""
        self._now_ns = now_ns
        self._replacing = Lock()

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See `Store.get`."""
        check_range(start, length)
        data, _ = self._find(path)
        begin, end = resolve_range(path, len(data), start, length)
        return data[begin:end]

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:  # noqa: ARG002 - nothing here is durable
        """See `Store.put`."""
        entry = bytes(data), self._now_ns()
        # One step, so that of two threads that create one object one wins.
        if mode == "overwrite":
            self.objects[check_new_path(path)] = entry
        elif self.objects.setdefault(check_new_path(path), entry) is not entry:
            raise ObjectExists(f"{path!r} exists already", why="A create replaces nothing", fix="Read what is there", path=path)

    def get_tagged(self, path: str) -> TaggedObject:
        """See `ReplacesIfMatch.get_tagged`."""
        data, _ = self._find(path)
        return TaggedObject(data=data, etag=content_etag(data))

    def put_if_match(self, path: str, data: bytes | memoryview, etag: str) -> str:
        """See `ReplacesIfMatch.put_if_match`."""
        entry = bytes(data), self._now_ns()
        with self._replacing:
            found = self.objects.get(check_new_path(path))
            if found is None or content_etag(found[0]) != etag:
                raise object_changed(path, self.url)
            self.objects[path] = entry
        return content_etag(entry[0])

    def head(self, path: str) -> ObjectInfo:
        """See `Store.head`."""
        data, modified_ns = self._find(path)
        return ObjectInfo(path=path, size=len(data), modified_ns=modified_ns)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        start = folder_prefix(prefix)
        paths = sorted(path for path in list(self.objects) if path.startswith(start) and path > after)
        return iter([self.head(path) for path in paths])

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        self.objects.pop(check_path(path), None)

    def local_path(self, path: str) -> None:  # noqa: ARG002 - the same answer for every path
        """None: nothing here is a file."""
        return

    def _find(self, path: str) -> tuple[bytes, int]:
        entry = self.objects.get(check_path(path))
        if entry is None:
            raise ObjectNotFound(f"{path!r} is not there", why="Nothing is stored under it", fix="Check the path", path=path)
        return entry


class OuterStore:
    """Passes every call on to `inner`; a subclass says what else happens at some of them."""

    def __init__(self, inner: Store) -> None:
        """Stand before `inner`."""
        self.inner = inner

    @property
    def url(self) -> str:
        """That of the store behind."""
        return self.inner.url

    @property
    def capabilities(self) -> Capabilities:
        """Those of the store behind."""
        return self.inner.capabilities

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See `Store.get`."""
        return self.inner.get(path, start, length)

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        """See `Store.put`."""
        self.inner.put(path, data, mode=mode, durable=durable)

    def get_tagged(self, path: str) -> TaggedObject:
        """See `ReplacesIfMatch.get_tagged`. Raises NotSupported where the store behind is none."""
        return self._replacing(path).get_tagged(path)

    def put_if_match(self, path: str, data: bytes | memoryview, etag: str) -> str:
        """See `ReplacesIfMatch.put_if_match`. Raises NotSupported where the store behind is none."""
        return self._replacing(path).put_if_match(path, data, etag)

    def head(self, path: str) -> ObjectInfo:
        """See `Store.head`."""
        return self.inner.head(path)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        return self.inner.list(prefix, after)

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        self.inner.delete(path)

    def local_path(self, path: str) -> str | None:
        """See `Store.local_path`."""
        return self.inner.local_path(path)

    def _replacing(self, path: str) -> ReplacesIfMatch:
        if replaces_if_match(self.inner):
            return self.inner
        raise NotSupported(
            f"{self.url} cannot replace {path!r} conditionally",
            why="The store behind declares put_if_match=False",
            fix="Put a store in front that does",
        )


T = TypeVar("T")


class Killed(BaseException):
    """The process died here. Whatever it still tries to do to the store raises this again, so that no clean-up has an effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often a call goes wrong (chances from 0 to 1, of which at most one befalls a call), and how long calls take."""

    lost_request: float = 0.0
    """No answer, and nothing was done: a reset, a 503, a timeout."""
    lost_reply: float = 0.0
    """No answer, though it was done (puts and deletes only, as the rest)."""
    late: float = 0.0
    """No answer, and it is done only some time afterwards."""
    sent_twice: float = 0.0
    """The client repeats a create whose answer it lost, and is told that the object exists: its own."""
    refused: float = 0.0
    """A create is told that the object exists, though nothing is stored: a 409 for another request in flight."""
    denied: float = 0.0
    """Access is denied; nothing was done."""
    full: float = 0.0
    """A put finds no space; nothing was stored."""
    delay_s: float = 0.005
    """Mean time of a request and of a reply, each drawn exponentially."""
    late_s: float = 1.0
    """Mean time until a late effect, and of half of the lost answers."""

    @classmethod
    def even(cls, chance: float) -> Faults:
        """Every kind of fault with the same chance."""
        return cls(
            lost_request=chance,
            lost_reply=chance,
            late=chance,
            sent_twice=chance,
            refused=chance,
            full=chance / 3,
            denied=chance / 6,
        )


_READS = ("lost_request", "denied")
_DELETES = (*_READS, "lost_reply", "late")
_REPLACES = (*_DELETES, "full")
_CREATES = (*_REPLACES, "sent_twice", "refused")

_EARLY: dict[str, type[StoreError]] = {"full": StorageFull, "denied": AccessDenied}
"""What is raised in place of doing it."""


def _lost_race(call: str, path: str) -> StoreError:
    """What a create or a conditional replace is told that comes second."""
    kind = ObjectChanged if call == "replace" else ObjectExists
    return kind(f"{call} of {path!r} failed", why="Simulated: another request came first", fix="Read it back", path=path)


Step = tuple[int, str, str, str, str]
"""(simulated nanoseconds, who, call, path, what came of it)."""


class SimStore(OuterStore):
    """A Store in front of another (an empty `DictStore` without one), which answers late, wrongly or not at all.

    Every call waits on the timeline before and after it takes effect, so that other actors may come between. What happens
    is drawn from `random`, and noted in `trace`. Give each actor a SimStore of its own over one inner store.
    """

    def __init__(
        self,
        inner: Store | None = None,
        *,
        random: Random,
        timeline: Timeline | None = None,
        faults: Faults | None = None,
        name: str = "",
    ) -> None:
        """Stand before `inner` on a timeline (a new one without), for the actor `name`."""
        self.timeline = timeline or Timeline()
        super().__init__(DictStore(lambda: self.timeline.now_ns) if inner is None else inner)
        self.faults = faults or Faults()
        self.name = name
        self.calls = 0
        """How many calls were made."""
        self.dies_at: int | None = None
        """The number of the call, from 1, at which the actor dies: before it, after it, or with it in flight."""
        self.stalls: dict[int, float] = {}
        """By the number of a call: for how many seconds the actor hangs before it makes that call, as a machine that sleeps does."""
        self.trace: list[Step] = []
        self._random = random

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See `Store.get`. Pages that a library's own threads read come without waits and faults."""
        if self.timeline.is_foreign():
            return self.inner.get(path, start, length)
        return self._call("get", path, _READS, lambda: self.inner.get(path, start, length))

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        """See `Store.put`."""
        kept, faults = bytes(data), _CREATES if mode == "create" else _REPLACES
        self._call(mode, path, faults, lambda: self.inner.put(path, kept, mode=mode, durable=durable))

    def get_tagged(self, path: str) -> TaggedObject:
        """See `ReplacesIfMatch.get_tagged`."""
        return self._call("get", path, _READS, lambda: super(SimStore, self).get_tagged(path))

    def put_if_match(self, path: str, data: bytes | memoryview, etag: str) -> str:
        """See `ReplacesIfMatch.put_if_match`."""
        kept = bytes(data)
        return self._call("replace", path, _CREATES, lambda: super(SimStore, self).put_if_match(path, kept, etag))

    def head(self, path: str) -> ObjectInfo:
        """See `Store.head`."""
        return self._call("head", path, _READS, lambda: self.inner.head(path))

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """See `Store.list`. What is created or removed while it is on its way may or may not be in it."""
        early = {info.path: info for info in self._call("list", prefix, _READS, lambda: list(self.inner.list(prefix, after)))}
        late = {info.path: info for info in self.inner.list(prefix, after)}
        return iter([late.get(path) or early[path] for path in sorted(early | late) if self._is_listed(path, early, late)])

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        self._call("delete", path, _DELETES, lambda: self.inner.delete(path))

    def local_path(self, path: str) -> None:  # noqa: ARG002 - the same answer for every path
        """None, so that every read comes by here."""
        return

    def _is_listed(self, path: str, early: dict[str, ObjectInfo], late: dict[str, ObjectInfo]) -> bool:
        return (path in early and path in late) or self._random.random() < 0.5

    def _call(self, call: str, path: str, kinds: tuple[str, ...], effect: Callable[[], T]) -> T:
        if self.dies_at is not None and self.calls >= self.dies_at:
            raise Killed
        self.calls += 1
        if (stall_s := self.stalls.get(self.calls)) is not None:
            self._note(call, path, "stalled")
            self.timeline.pause(stall_s)
        fault = self._draw(kinds)
        death = self._random.choice(("before", "after", "late")) if self.calls == self.dies_at else ""
        self.timeline.pause(self._delay())
        if death in ("before", "late"):
            raise self._die(call, path, effect if death == "late" and kinds is not _READS else None)
        self._fail_early(fault, call, path, effect)
        try:
            answer = effect()
        except StoreError as error:
            self.timeline.pause(self._delay())
            if fault != "lost_reply":
                self._note(call, path, "absent" if isinstance(error, ObjectNotFound) else error.code)
                raise
        else:
            self.timeline.pause(self._delay())
        if death:
            raise self._die(call, path, None)
        if fault == "lost_reply":
            raise self._no_answer(call, path, fault)
        self._note(call, path, fault or "done")
        if fault == "sent_twice":
            raise _lost_race(call, path)
        return answer

    def _fail_early(self, fault: str, call: str, path: str, effect: Callable[[], object]) -> None:
        """Raise the faults that come before the effect."""
        if fault == "refused":
            self._note(call, path, fault)
            raise _lost_race(call, path)
        if fault in _EARLY:
            self._note(call, path, fault)
            raise _EARLY[fault](f"{call} of {path!r} failed", why=f"Simulated: {fault}", fix="Try again", path=path)
        if fault == "late":
            self._do_later(call, path, effect)
        if fault in ("late", "lost_request"):
            raise self._no_answer(call, path, fault)

    def _draw(self, kinds: tuple[str, ...]) -> str:
        """The fault that befalls this call; mostly none."""
        draw = self._random.random()
        for kind in kinds:
            draw -= getattr(self.faults, kind)
            if draw < 0:
                return kind
        return ""

    def _delay(self, mean_s: float | None = None) -> float:
        return -log(1.0 - self._random.random()) * (self.faults.delay_s if mean_s is None else mean_s)

    def _do_later(self, call: str, path: str, effect: Callable[[], object]) -> None:
        def happen() -> None:
            self._note(call, path, "late effect")
            with contextlib.suppress(StoreError):
                effect()

        self.timeline.later(self._delay(self.faults.late_s), happen)

    def _no_answer(self, call: str, path: str, fault: str) -> StoreUnavailable:
        if self._random.random() < 0.5:
            self.timeline.pause(self._delay(self.faults.late_s))
        self._note(call, path, fault)
        return StoreUnavailable(f"no answer for {path!r}", why=f"Simulated: {fault}", fix="Look whether it is there", path=path)

    def _die(self, call: str, path: str, effect: Callable[[], object] | None) -> Killed:
        self._note(call, path, "killed")
        if effect is not None:
            self._do_later(call, path, effect)
        return Killed()

    def _note(self, call: str, path: str, outcome: str) -> None:
        self.trace.append((self.timeline.now_ns, self.name, call, path, outcome))
