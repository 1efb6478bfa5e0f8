"""Log replay for Delta (PROTOCOL.md, "Action Reconciliation"): a table's state, its live files and its tombstones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Generic, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.formats.delta.actions import (
    Action,
    AddFile,
    Applied,
    Commit,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    TableState,
    Txn,
    file_keys,
)
from gapless.formats.delta.checkpoint.names import Sidecar
from gapless.formats.delta.commit_codec import dated
from gapless.formats.delta.operation_ids import applied_of, kind_of_change, txn_of
from gapless.model.layered_dict import Base, LayeredDict
from gapless.model.operation import operation_key

V = TypeVar("V")
Places = npt.NDArray[np.int64]


class LazyFiles(Mapping[str, V], Generic[V]):
    """Values by key that are decoded on first access, one by one, or all at once where all are needed."""

    __slots__ = ("_all", "_index", "_keys", "_made", "_make", "stats")

    def __init__(
        self,
        keys: Sequence[str],
        make: Callable[[int, int], list[V]],
        stats: Callable[[], pa.Array] | None = None,
        index: dict[str, int] | None = None,
    ) -> None:
        """`make(start, end)` gives the values of the keys `[start, end)`, in order; no key is there twice.

        `stats` gives the statistics of all as large_string, where they can be had without the values; `index` the places of the keys, where
        they are known.
        """
        self._keys, self._make, self.stats = keys, make, stats
        self._index = index
        self._made: dict[str, V] = {}
        self._all: dict[str, V] | None = None

    def __getitem__(self, key: str) -> V:
        """The value; KeyError where there is none."""
        if (found := self._made.get(key)) is not None:
            return found
        at = self.places()[key]
        return self._made.setdefault(key, self._make(at, at + 1)[0])

    def some(self, places: Places) -> list[V]:
        """The values at ascending places; those side by side are made together."""
        made, keys = self._made, self._keys
        lacking = np.array([at for at in places.tolist() if keys[at] not in made], np.int64)
        for run in np.split(lacking, np.flatnonzero(np.diff(lacking) > 1) + 1) if len(lacking) else ():
            start, end = int(run[0]), int(run[-1]) + 1
            for key, value in zip(keys[start:end], self._make(start, end), strict=True):
                made.setdefault(key, value)
        return [made[keys[at]] for at in places.tolist()]

    def __contains__(self, key: object) -> bool:
        """Whether it has the key."""
        return key in self.places()

    def __iter__(self) -> Iterator[str]:
        """Keys, in order."""
        return iter(self._keys)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._keys)

    def all(self) -> dict[str, V]:
        """Every value by key, in order; no one changes it."""
        if self._all is None:
            made, values = self._made, zip(self._keys, self._make(0, len(self._keys)), strict=True)
            self._all = self._made = {key: made.get(key, value) for key, value in values} if made else dict(values)
        return self._all

    def key_at(self, place: int) -> str:
        """The key at a place in the order."""
        return self._keys[place]

    def places(self) -> dict[str, int]:
        """The place of each key; no one changes it."""
        if self._index is None:
            self._index = dict(zip(self._keys, range(len(self._keys)), strict=True))
        return self._index


class _LazyDict(LayeredDict[V]):
    """A LayeredDict whose base may be LazyFiles."""

    __slots__ = ()

    @classmethod
    def of(cls, items: Mapping[str, V]) -> Self:
        """A copy, to be changed apart from `items`."""
        return cast("Self", super().of(items))

    @classmethod
    def on(cls, lazy: LazyFiles[V]) -> Self:
        """What lazy files hold."""
        made = cls()
        made._layers = made._on(Base(lazy))
        made._length = len(lazy)
        return made

    def _plain(self, base: Base[V]) -> dict[str, V]:
        items = base.items
        if isinstance(items, LazyFiles):
            return items.all()
        return items if isinstance(items, dict) else dict(items)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatsView:
    """Statistics of all live files, in their order, without decoding the files: for data skipping."""

    texts: pa.Array
    """large_string: their statistics, null where they have none."""
    files: Callable[[Places], list[AddFile]]
    """The files at ascending places."""


def stats_column(files: Sequence[AddFile]) -> pa.Array:
    """The statistics of files as large_string; null for a text that Arrow cannot hold, with half of a surrogate pair."""
    texts = [file.stats for file in files]
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeError:
        return pa.array([text if text is not None and _is_text(text) else None for text in texts], pa.large_string())


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeError:
        return False
    return True


class LiveFiles(_LazyDict[AddFile]):
    """Live files by key, in the order they became live."""

    __slots__ = ("sidecars",)

    def __init__(self) -> None:
        """None."""
        super().__init__()
        self.sidecars: tuple[Sidecar, ...] = ()
        """The sidecars that hold exactly these, and the tombstones, where a log checkpoint was read that names them."""

    def stats_view(self) -> FileStatsView | None:
        """The statistics of every file, in order, without making values; None where there is no such way."""
        new, gone, lazy = self._layers.new, self._layers.gone, self._layers.base.items
        if not isinstance(lazy, LazyFiles) or lazy.stats is None:
            return None
        texts = lazy.stats()
        if not new and not gone:
            return FileStatsView(texts=texts, files=lazy.some)
        at, stays = lazy.places(), np.ones(len(lazy), dtype=np.bool_)
        stays[[at[key] for key in gone]] = False
        again = sorted([at[key] for key in new if key in at and key not in gone])
        if again:
            changed = np.zeros(len(lazy), dtype=np.bool_)
            changed[again] = True
            texts = pc.replace_with_mask(texts, changed, stats_column([new[lazy.key_at(place)] for place in again]))
        places = np.flatnonzero(stays)
        added = [file for key, file in new.items() if key not in at or key in gone]
        texts = pa.concat_arrays([texts.filter(stays), stats_column(added)])

        def files(wanted: Places) -> list[AddFile]:
            near = places[wanted[wanted < len(places)]]
            told = zip(near.tolist(), lazy.some(near), strict=True)
            after = wanted[wanted >= len(places)] - len(places)
            return [new.get(lazy.key_at(at), file) for at, file in told] + [added[at] for at in after.tolist()]

        return FileStatsView(texts=texts, files=files)


class Tombstones(_LazyDict[RemoveFile]):
    """Removed files by key."""

    __slots__ = ()


@dataclass(slots=True)
class Draft:
    """The parts of a `TableState`, to be changed in place."""

    protocol: Protocol | None
    metadata: Metadata | None
    files: LiveFiles
    removed: Tombstones
    applied: LayeredDict[Applied]
    domains: dict[str, DomainMetadata]

    @classmethod
    def of(cls, state: TableState | None) -> Draft:
        """A copy of a state, or of nothing."""
        if state is None:
            return cls(None, None, LiveFiles(), Tombstones(), LayeredDict(), {})
        return cls(
            state.protocol,
            state.metadata,
            LiveFiles.of(state.files),
            Tombstones.of(state.removed),
            LayeredDict.of(state.applied),
            dict(state.domains),
        )

    def state(self) -> TableState:
        """What it has become; the draft must not be changed any more. Raises ValueError where it does not say what the table is."""
        if self.metadata is None or self.protocol is None:
            raise ValueError(f"there is no {'metaData' if self.metadata is None else 'protocol'}")
        return TableState(
            protocol=self.protocol,
            metadata=self.metadata,
            files=self.files,
            removed=self.removed,
            applied=self.applied,
            domains=self.domains,
        )

    def apply(self, commit: Commit, version: int, time_ns: int) -> None:
        """Take in a commit."""
        for kind, actions in groupby(commit.actions, type):
            if kind is AddFile:
                self._add(cast("list[AddFile]", list(actions)))
            else:
                self._apply(actions, commit, version, time_ns)

    def _add(self, added: list[AddFile]) -> None:
        files = dict(zip(file_keys(added), added, strict=True))
        self.files.set_all(files)
        if self.removed:
            for key in [key for key in files if key in self.removed]:
                del self.removed[key]

    def _apply(self, actions: Iterable[Action], commit: Commit, version: int, time_ns: int) -> None:
        for action in actions:
            match action:
                case RemoveFile() | DomainMetadata() | Protocol():
                    self.take(action)
                case Metadata():
                    self.metadata = dated(action, version, time_ns)
                case Txn():
                    known = replace(applied_of(action), version=version)
                    if commit.operation_id == known.operation:
                        kind = kind_of_change(commit.operation, commit.parameters)
                        marked_ms = txn_of(known.operation, kind).updated_ms
                        known = replace(known, ours=True, kind=kind, updated_ms=marked_ms, tally=commit.tally)
                    self.applied[operation_key(known.operation)] = known

    def take(self, action: Action) -> None:
        """Take in one action, as a log checkpoint has it: of which commit is not known."""
        match action:
            case AddFile():
                key = action.key
                self.files[key] = action
                if key in self.removed:
                    del self.removed[key]
            case RemoveFile():
                key = action.key
                if key in self.files:
                    del self.files[key]
                self.removed[key] = action
            case Txn():
                applied = applied_of(action)
                self.applied[operation_key(applied.operation)] = applied
            case DomainMetadata(removed=False):
                self.domains[action.domain] = action
            case DomainMetadata():
                self.domains.pop(action.domain, None)
            case Protocol():
                self.protocol = action
            case Metadata():
                self.metadata = action
