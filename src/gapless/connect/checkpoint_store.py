"""Checkpoints of a pipeline in a folder or bucket: what was prepared, and the decision to commit it.

Under Spark one idempotent commit per batch is enough, since Spark keeps its own checkpoints; this is for other runners. The layout is
in docs/spec/prepared-commit.md: `<id>.json` is a manifest, `<id>.decided` the decision with a copy of it, `<id>.done` says that all sinks
followed it.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gapless.connect.sources.protocol import Cursor
from gapless.errors import (
    CommitConflict,
    CorruptTable,
    InvalidOption,
    LogWarning,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    StoreUnavailable,
)
from gapless.model.protocols import Store
from gapless.store.open import open_store, probe_put_if_absent
from gapless.tables.shared.prepared import PreparedCommit, is_intact, sealed, text_of, with_checksum

FORMAT = 1
_CREATES = 3
"""How often one object is to be created that is refused and not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a pipeline had prepared at one moment."""

    id: int
    cursor: Cursor
    """After the rows that the prepared commits, and those before, hold."""
    prepared: Mapping[str, PreparedCommit]
    """By the name of the sink."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """JSON that the pipeline keeps."""
    unfinished: tuple[int, ...] = ()
    """The checkpoints before it that are decided, and that some sink had not followed yet when it was recorded; in order."""

    @property
    def body(self) -> dict[str, Any]:
        """The manifest as JSON's values, with its checksum."""
        body = {
            "format": FORMAT,
            "id": self.id,
            "cursor": json.loads(self.cursor.to_json()),
            "prepared": {name: one.body for name, one in self.prepared.items()},
            "state": dict(self.state),
        }
        return with_checksum(body | ({"unfinished": list(self.unfinished)} if self.unfinished else {}))

    def to_json(self) -> str:
        """The manifest, with its checksum."""
        return text_of(self.body)

    @classmethod
    def from_json(cls, text: str | bytes, path: str) -> Checkpoint:
        """Read a manifest; `path` names it in messages. Raises CorruptTable where it is torn or altered."""
        try:
            body = json.loads(text)
            intact = is_intact(body) and body["format"] == FORMAT
            prepared = {name: PreparedCommit.from_json(json.dumps(one), path) for name, one in body["prepared"].items()}
            cursor = Cursor.from_json(json.dumps(body["cursor"]))
            unfinished = tuple(int(number) for number in body.get("unfinished", ()))
            found = cls(id=int(body["id"]), cursor=cursor, prepared=prepared, state=body["state"], unfinished=unfinished)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise _damaged(path, f"{type(error).__name__}: {error}") from error
        if not intact:
            raise _damaged(path, "Its checksum is not that of what it says")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What became of a checkpoint, once and for ever."""

    commit: bool
    checkpoint: Checkpoint | None
    """A copy of the manifest, where there was one that could be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Where a pipeline goes on, when no other coordinator can decide anything before `next_id` any more."""

    decided: Checkpoint | None
    """The newest checkpoint that is to be committed; None for a pipeline that begins."""
    unfinished: tuple[Checkpoint, ...]
    """What is to be committed and is not known to be, in order; the newest decided one is the last of them, unless it is finished."""
    aborted: tuple[Checkpoint, ...]
    """Prepared after it, and never to be committed."""
    next_id: int
    """The number of the next checkpoint; what is prepared under a lower one and not decided is to be aborted."""

    @property
    def finished(self) -> bool:
        """Whether all sinks are known to have followed the newest decided one."""
        return not any(one is self.decided for one in self.unfinished)


class CheckpointStore:
    """The checkpoints of one pipeline. Several processes may use one at once: of two that decide one number, one wins."""

    def __init__(
        self, location: str | os.PathLike[str], *, keep: int = 3, storage_options: Mapping[str, str] | None = None
    ) -> None:
        """In a folder or bucket of its own. `keep`: how many finished checkpoints stay. Raises InvalidPath, InvalidOption."""
        if type(keep) is not int or keep < 1:
            raise InvalidOption(
                f"keep={keep!r} is no number of checkpoints",
                why="So many finished ones stay, the newest at least",
                fix="Pass 1 or more",
                option="keep",
                value=keep,
            )
        self._store: Store = open_store(location, storage_options)
        self._keep = keep

    @property
    def url(self) -> str:
        """Where they lie."""
        return self._store.url

    def record(self, checkpoint: Checkpoint) -> None:
        """Store what was prepared, before the decision. Raises CommitConflict where another coordinator has this number, StoreError."""
        probe_put_if_absent(self._store)
        path, data = _path(checkpoint.id, "json"), checkpoint.to_json().encode()
        # A power cut may take it: the decision has a copy, and without one the sinks know what they prepared.
        if self._created(path, data, durable=False) != data:
            raise _taken(self.url, path)

    def check_free(self, number: int) -> None:
        """Raise CommitConflict where another coordinator has this number or a higher one, which `recover` gave to be the next; StoreError."""
        if taken := [one for numbers in self._ids().values() for one in numbers if one >= number]:
            raise _taken(self.url, _path(max(taken), "decided"))

    def decide(self, checkpoint: Checkpoint) -> None:
        """From now on it is to be committed, whatever comes. Raises CommitConflict where another coordinator decided this number, or has gone
        on to a higher one, StoreError.
        """
        path, data = _path(checkpoint.id, "decided"), _decision(checkpoint, commit=True)
        if self._created(path, data) != data:
            raise _taken(self.url, path)
        # What another coordinator decided about this number may be removed by now, which only happens after higher ones.
        if any(number > checkpoint.id for numbers in self._ids().values() for number in numbers):
            raise _taken(self.url, path)

    def finish(self, checkpoint: Checkpoint) -> None:
        """All sinks have followed; older checkpoints that are finished may go. Raises StoreError."""
        ids = self._ids()
        # A power cut may take it, where no other checkpoint says that this one waits: to finalize again changes nothing.
        named = bool(checkpoint.unfinished) or any(number > checkpoint.id for number in ids["json"] | ids["decided"])
        self._store.put(_path(checkpoint.id, "done"), b"{}\n", mode="overwrite", durable=named)
        self._retain(checkpoint, {**ids, "done": ids["done"] | {checkpoint.id}})

    def recover(self) -> Recovered:
        """Where to go on. What was prepared and not decided is decided now: it will not be committed, and its coordinator, should it still
        live, is told so when it decides.

        A manifest that is torn or altered is taken from the decision, which has a copy, with a warning; one that was not decided is left
        out. Raises CorruptTable where both are damaged, StoreError.
        """
        probe_put_if_absent(self._store)
        while True:
            ids = self._ids()
            try:
                decisions = {number: self._decision(number) for number in ids["decided"]}
            except ObjectNotFound:  # removed since by another coordinator, which goes on
                continue
            known = ids["json"] | ids["decided"] | ids["done"]
            fence = max(known, default=0) + 1
            undecided = sorted(ids["json"] - ids["decided"] - ids["done"])
            if all(self._abort(number) for number in (*undecided, fence)):
                break
        commits = [number for number, one in decisions.items() if one.commit]
        newest = max(commits, default=None)
        after = [number for number in sorted(ids["json"]) if newest is None or number > newest]
        decided = None if newest is None else self._manifest(newest, decisions[newest])
        return Recovered(
            decided=decided,
            unfinished=() if decided is None else self._unfinished(decided, decisions, ids["done"]),
            aborted=tuple(one for number in after if (one := self._undecided(number)) is not None),
            next_id=fence + 1,
        )

    def forget(self, checkpoint: Checkpoint) -> None:
        """Remove the manifest of one that was aborted, once its prepared commits were. Raises StoreError."""
        self._store.delete(_path(checkpoint.id, "json"))

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _created(self, path: str, data: bytes, *, durable: bool = True) -> bytes:
        """Put if absent; what is there then. A create whose answer was lost may find itself. Raises StoreError where that is not known."""
        for _ in range(_CREATES):
            try:
                self._store.put(path, data, durable=durable)
            except ObjectExists:
                # Not there all the same: refused for a request in flight, or removed since by who went on to higher numbers.
                with contextlib.suppress(ObjectNotFound):
                    return self._store.get(path)
            except StoreError:
                with contextlib.suppress(ObjectNotFound):
                    return self._store.get(path)
                raise
            else:
                return data
        raise StoreUnavailable(
            f"{path} in {self.url} was refused {_CREATES} times because it exists, and is not there",
            why="Other requests for it are in flight, or other coordinators create and remove it",
            fix="Run the pipeline again",
            path=path,
        )

    def _abort(self, number: int) -> bool:
        """Decide that a checkpoint is not to be committed; False where another coordinator decided otherwise just now."""
        path, data = _path(number, "decided"), _decision(None, commit=False)
        return self._created(path, data) == data

    def _decision(self, number: int) -> Decision:
        path = _path(number, "decided")
        try:
            body = json.loads(self._store.get(path))
            # Those of the first releases have none.
            intact = "checksum" not in body or is_intact(body)
            commit, copy = body["commit"], body["checkpoint"]
            found = Decision(
                commit=commit is True, checkpoint=None if copy is None else Checkpoint.from_json(json.dumps(copy), path)
            )
        except (ValueError, TypeError, KeyError) as error:
            # Whether it was to be committed or given up is said nowhere else.
            raise _damaged(path, f"{type(error).__name__}: {error}") from error
        if not intact or type(commit) is not bool:
            raise _damaged(path, "Its checksum is not that of what it says" if not intact else f"commit is {commit!r}")
        return found

    def _manifest(self, number: int, decision: Decision) -> Checkpoint:
        """What was decided, which the decision has a copy of."""
        path = _path(number, "json")
        try:
            recorded = Checkpoint.from_json(self._store.get(path), path)
        except (ObjectNotFound, CorruptTable) as error:
            if decision.checkpoint is None:
                raise
            warnings.warn(f"{error.what}; the decision's copy of it is used", LogWarning, stacklevel=3)
            return decision.checkpoint
        return recorded if decision.checkpoint is None else decision.checkpoint

    def _unfinished(self, newest: Checkpoint, decisions: Mapping[int, Decision], done: set[int]) -> tuple[Checkpoint, ...]:
        """Those that the newest decided one names, and itself, but for what is done; another decision, made after a higher number was there,
        is void. Checkpoints are finished in their order, so that one is that is gone and lower than one that is done.
        """
        before = [number for number in newest.unfinished if number > max(done, default=0) or number in decisions.keys() - done]
        if lost := [number for number in before if number not in decisions]:
            raise _damaged(_path(lost[0], "decided"), f"Checkpoint {newest.id} says that it was decided, and it is not there")
        found = [self._manifest(number, decisions[number]) for number in before]
        return (*found, *(() if newest.id in done else (newest,)))

    def _undecided(self, number: int) -> Checkpoint | None:
        path = _path(number, "json")
        try:
            return Checkpoint.from_json(self._store.get(path), path)
        except ObjectNotFound:
            return None
        except CorruptTable as error:
            warnings.warn(f"{error.what}; it was not decided, and the pipeline goes on before it", LogWarning, stacklevel=3)
            return None

    def _ids(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {"json": set(), "decided": set(), "done": set()}
        for info in self._store.list():
            stem, _, suffix = info.path.partition(".")
            if suffix in found and stem.isdecimal():
                found[suffix].add(int(stem))
        return found

    def _retain(self, finished: Checkpoint, ids: Mapping[str, set[int]]) -> None:
        """Remove what is older than the newest finished ones, up to what is still to be decided or finished."""
        kept = sorted(ids["done"])[-self._keep :]
        older = {number for numbers in ids.values() for number in numbers if number < kept[0]}
        for number in sorted(older):
            undecided = number in ids["json"] and number not in ids["decided"]
            if number not in ids["done"] and (undecided or number in finished.unfinished):
                return
            for suffix in ("json", "decided", "done"):
                if number in ids[suffix]:
                    self._store.delete(_path(number, suffix))


def _path(number: int, suffix: str) -> str:
    return f"{number:020d}.{suffix}"


def _decision(checkpoint: Checkpoint | None, *, commit: bool) -> bytes:
    return sealed({"commit": commit, "checkpoint": None if checkpoint is None else checkpoint.body}).encode()


def _damaged(path: str, why: str) -> CorruptTable:
    return CorruptTable(
        f"the checkpoint {path} cannot be read",
        why=why,
        fix="Bring the file back; without it nobody can say which rows its sinks have",
        path=path,
    )


def _taken(url: str, path: str) -> CommitConflict:
    return CommitConflict(
        f"{path} in {url} is another coordinator's",
        why="Two run this pipeline at once, and the other one was first",
        fix="Stop one of them; the rows of this one's checkpoint are still to be read from the source",
        version=int(path.partition(".")[0]),
        reason="another coordinator",
    )
