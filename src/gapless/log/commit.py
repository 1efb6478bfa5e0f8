"""The commit conversation: the one way to change a table.

Put-if-absent of the commit file of version N + 1 *is* the commit. Everything unclear is resolved by reading that file back and comparing
commit ids; a lost race reads only the new commits, asks `judge` whether they clash, and tries the next version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from gapless.errors import StoreError
from gapless.log.dialect import Dialect, Entry, State
from gapless.log.requests import Get, Now, Put, PutHint, PutNew, Talk, Wait, ask


@dataclass(frozen=True, slots=True)
class Stands(Generic[Entry]):
    """Ours may follow theirs, as `entry` (the same, or rebased on theirs)."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Clash:
    """Ours may not follow theirs; `detail` is what the dialect wants to tell its caller."""

    reason: str
    detail: object = None


Judge = Callable[[Entry, int, Entry], Talk["Stands[Entry] | Clash"]]
"""May our entry stand after the other entry, which landed as this version?"""


@dataclass(frozen=True, slots=True)
class Committed(Generic[Entry]):
    """It landed as `version`; `entries` are the commits passed over and then ours: (version, entry, commit time)."""

    version: int
    entries: tuple[tuple[int, Entry, int], ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """It certainly did not land and never will: `version` clashes."""

    version: int
    clash: Clash


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may have landed as `version`, or may still; keep its files."""

    version: int


Outcome = Committed[Entry] | Conflict | Unknown

_TICK_NS = 1_000


def commit(
    dialect: Dialect[Entry, State], base: int, base_time_ns: int, entry: Entry, judge: Judge[Entry]
) -> Talk[Outcome[Entry]]:
    """Append `entry` after version `base`, stepping over commits that do not clash with it.

    Commit times never run backward: each is at least a microsecond after the one before, whatever the clock says.
    """
    version, time_ns, attempt = base + 1, base_time_ns, 0
    asked = base
    passed: list[tuple[int, Entry, int]] = []
    while True:
        now_ns = yield from ask(Now())
        ours_ns = max(now_ns - now_ns % _TICK_NS, time_ns + _TICK_NS)
        put = yield from _put(dialect.path_of(version), dialect.encode(entry, version, ours_ns), again=asked == version)
        if put is Put.DONE:
            return (yield from _landed(dialect, version, entry, ours_ns, passed))
        asked = version
        try:
            data = yield from ask(Get(dialect.path_of(version)))
        except StoreError:
            return Unknown(version)
        if data is None:
            # Ours can land at this version and nowhere else, so it is tried again here, and lands once.
            attempt += 1
            if not (yield from ask(Wait(attempt))):
                return Unknown(version)
            continue
        # Read on to the newest commit: a put below it could only be refused.
        while data is not None:
            theirs, time_ns = dialect.decode(data, version)
            if dialect.id_of(theirs) == dialect.id_of(entry):
                return (yield from _landed(dialect, version, theirs, time_ns, passed))
            verdict = yield from judge(entry, version, theirs)
            if isinstance(verdict, Clash):
                return Conflict(version, verdict)
            entry = verdict.entry
            passed.append((version, theirs, time_ns))
            version += 1
            data = yield from ask(Get(dialect.path_of(version)))
        attempt += 1
        if not (yield from ask(Wait(attempt))):
            return Conflict(version - 1, Clash("the deadline passed while other commits kept coming first"))


def _put(path: str, data: bytes, *, again: bool) -> Talk[Put]:
    try:
        return (yield from ask(PutNew(path, data)))
    except StoreError:
        if not again:
            raise
        # This try failed whole, but one before it may have landed there, or may still.
        return Put.NO_ANSWER


def _landed(
    dialect: Dialect[Entry, State], version: int, entry: Entry, time_ns: int, passed: list[tuple[int, Entry, int]]
) -> Talk[Committed[Entry]]:
    yield from ask(PutHint(dialect.hint, b"%d\n" % version))
    return Committed(version, (*passed, (version, entry, time_ns)))
