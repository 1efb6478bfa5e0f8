"""A store under watch, whatever the kind of table: what is deleted stays readable for the auditor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from gapless.errors import ObjectNotFound
from gapless.model.protocols import PutMode, Store
from gapless.testing.outer_store import OuterStore


class Kept(Protocol):
    """A commit as it landed, and what the table kept from then on."""

    @property
    def landed_ns(self) -> int:
        """When, in simulated time."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's columns from then on."""

    @property
    def earliest(self) -> int:
        """The first version from which on all are kept."""

    def keeps(self, version: int) -> bool:
        """Whether a version can still be read."""


class Watched(OuterStore):
    """A Store before another. Follows the log as it grows, with no code under test; `faults` says what must not have happened."""

    log = ""
    """The folder of the log."""

    def __init__(self, inner: Store, now_ns: Callable[[], int]) -> None:
        """Watch `inner`, which must be empty; `now_ns` dates what lands."""
        super().__init__(inner)
        self.commits: dict[int, Any] = {}
        """A `Kept` a version."""
        self.faults: list[str] = []
        self.graveyard: dict[str, bytes] = {}
        """What was deleted, by path."""
        self.now_ns = now_ns

    @property
    def newest(self) -> int:
        """The newest version; 0 before the first."""
        return max(self.commits, default=0)

    def recall(self, path: str) -> bytes | None:
        """What lies under a path, or lay there before it was deleted; None where nothing ever did."""
        found = self.find(path)
        return self.graveyard.get(path) if found is None else found

    def find(self, path: str) -> bytes | None:
        """What lies under a path; None where nothing does."""
        try:
            return self.inner.get(path)
        except ObjectNotFound:
            return None

    # -- the Store -----------------------------------------------------------------------------------------------------

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        """See `Store.put`."""
        super().put(path, data, mode=mode, durable=durable)
        if path.startswith(self.log) and path.endswith(".json"):
            self.follow(path, bytes(data))

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        data = self.find(path)
        super().delete(path)
        if data is not None:
            self.graveyard[path] = data
            self.mourn(path)

    # -- the watch -----------------------------------------------------------------------------------------------------

    def follow(self, path: str, data: bytes) -> None:
        """Fold a JSON file of the log that just landed."""
        raise NotImplementedError

    def mourn(self, path: str) -> None:
        """Say what a deletion takes from the versions that are kept."""
        raise NotImplementedError
