"""Objects of a lake put into a store: created once whatever answers are lost, and histories that only grow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gapless.errors import CommitOutcomeUnknown, ObjectChanged, StoreError, StoreUnavailable
from gapless.lake.layout.settings import history_path
from gapless.model.protocols import Store
from gapless.runtime.conditional_puts import try_put_once
from gapless.runtime.environment import Environment
from gapless.store.open import probe_put_if_match
from gapless.tables.shared.handle import is_stored


def create_once(env: Environment, path: str, data: bytes) -> bytes:
    """Put an object if none is there, and give what is there then: ours, or that of who came first.

    Raises CommitOutcomeUnknown where the store gave no usable answer until the deadline; StoreError.
    """
    found = try_put_once(env, path, data)
    if found is None:
        raise CommitOutcomeUnknown(
            f"whether {path} is stored in {env.store.url} is not known",
            why="The store gave no usable answer until the deadline; nothing was deleted",
            fix="When the store answers again, run it again with the same run_id: what is there counts once",
            version=0,
            commit_id=path,
        )
    return found


@dataclass(frozen=True, slots=True)
class PartStore:
    """Where files of rows go: each is called after its bytes, so that the same rows sent again are the same files."""

    env: Environment
    folder: str
    stored: Callable[[str, bytes], str]
    """Gives the name of a file that is to be stored, by the name it was to have and its bytes."""

    def put(self, path: str, data: bytes) -> None:
        """Store a file once. Raises StoreError, CommitOutcomeUnknown."""
        create_once(self.env, f"{self.folder}/{self.stored(path, data)}", data)


_TRIES = 1000


def append_line(store: Store, path: str, next_line: Callable[[bytes], bytes | None]) -> bytes:
    """Append a line to an object, as decided on what it holds; gives what it holds then. None appends nothing.

    Of several writers one is first, and the others decide again. Raises StoreError, and ObjectNotFound where nothing is there.
    """
    changing = probe_put_if_match(store)
    for _ in range(_TRIES):
        tagged = changing.get_tagged(path)
        line = next_line(tagged.data)
        if line is None:
            return tagged.data
        whole = tagged.data + line
        try:
            changing.put_if_match(path, whole, tagged.etag)
        except ObjectChanged:
            continue
        except StoreUnavailable:
            if line not in store.get(path):
                raise
        return whole
    raise StoreError(
        f"{path} in {store.url} was changed by others {_TRIES} times in a row",
        why="Each change is made on the newest state",
        fix="Run it again once fewer writers are at work",
        path=path,
    )


def table_names(env: Environment) -> list[str]:
    """The tables of a lake. Raises StoreError."""
    names, after = list[str](), ""
    # From table to table, past its runs.
    while (first := next(iter(env.store.list("tables", after)), None)) is not None:
        name = first.path.split("/")[1]
        if is_stored(env.store, history_path(name)):
            names.append(name)
        after = f"tables/{name}0"
    return names
