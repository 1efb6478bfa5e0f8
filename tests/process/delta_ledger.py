"""The audit of a Delta table to which writers in other processes appended what `ledger` says; reads the log with no code of ours."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

import gapless as gl
from gapless.store.open import open_store
from process.ledger import SCHEMA, Append, Audit, Place, appends_of


def make_delta(place: Place, **properties: object) -> Any:
    """An empty table for such appends; `delta.` is put before the names of properties."""
    named = {f"delta.{name}": value for name, value in properties.items()}
    return gl.delta.create(place[0], SCHEMA, properties=named, storage_options=place[1] or None)


def open_delta(place: Place) -> Any:
    """A new handle on the table there."""
    return gl.delta.open(place[0], storage_options=place[1] or None)


def audit_delta(place: Place) -> Audit:
    """Open the table anew and read all of it; its commits, rows and files are compared with each other."""
    table = open_delta(place)
    present, faults = appends_of(table.scan().to_arrow())
    store = open_store(place[0], place[1] or None)
    commits = {
        int(info.path[-25:-5]): [json.loads(line) for line in store.get(info.path).splitlines()]
        for info in store.list("_delta_log")
        if info.path.endswith(".json") and info.path[-25:-5].isdigit()
    }
    if sorted(commits) != list(range(table.version + 1)):
        faults.append(f"the log holds {sorted(commits)}, and the newest version is {table.version}")
    ids = [action["commitInfo"]["txnId"] for actions in commits.values() for action in actions if "commitInfo" in action]
    if len(set(ids)) != len(ids) or len(ids) != len(commits):
        faults.append("two versions hold one commit")
    named = {
        unquote(action["add"]["path"]): action["add"] for actions in commits.values() for action in actions if "add" in action
    }
    sizes = {info.path: info.size for info in store.list("") if not info.path.startswith("_delta_log/")}
    faults += [
        f"{path} has {sizes.get(path)} bytes, not {add['size']}"
        for path, add in named.items()
        if sizes.get(path) != add["size"]
    ]
    if (counted := table.count()) != len(present) * 10:
        faults.append(f"count() says {counted}, and there are {len(present)} appends of 10")
    orphans = tuple(path for path in sizes if path not in named)
    return Audit(version=table.version, present=frozenset(present), faults=tuple(faults), orphans=orphans)


def check_delta(place: Place, acknowledged: Iterable[Append], unanswered: Iterable[Append] = ()) -> Audit:
    """The audit, after failing on any fault, on a lost acknowledged append and on one that nobody sent."""
    found, acked = audit_delta(place), set(acknowledged)
    assert not found.faults, found.faults
    assert not acked - found.present, f"acknowledged and lost: {sorted(acked - found.present)}"
    strange = found.present - acked - set(unanswered)
    assert not strange, f"not sent, or sent twice: {sorted(strange)}"
    return found
