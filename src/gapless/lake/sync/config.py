"""`lake.toml` of two copies of a lake: brought over where one side changed it, shown where both did; and what both had at the last sync."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping

from gapless.errors import InvalidOption, InvalidPath, ObjectNotFound, TableNotFound
from gapless.lake.layout.head import digest
from gapless.lake.sync.plan import Conflict
from gapless.lake.sync.report import Direction, Relation
from gapless.lake.sync.side import CONFIG, Side, lake_id
from gapless.runtime.conditional_puts import replaced, tagged
from gapless.runtime.environment import Environment

STATE = "sync.json"
"""At the root of the side that pushes and pulls: what it had in common with others. Not copied."""
KEEPS = ("refuse", "ours", "theirs")


def check_keep(config: object) -> str:
    """`config=` of a push or pull. Raises InvalidOption."""
    if config not in KEEPS:
        raise InvalidOption(
            f"config={config!r} says not which lake.toml stays",
            fix="Pass 'ours' or 'theirs', or leave it out, so that a conflict is shown",
            option="config",
            value=config,
        )
    return str(config)


def check_lake(local: bytes | None, remote: bytes | None, url: str) -> None:
    """Raise InvalidPath where the two are not copies of one lake."""
    if local is not None and remote is not None and lake_id(local) != lake_id(remote):
        raise InvalidPath(
            f"{url} is another lake",
            why=f"Its id is {lake_id(remote)}, and that of this one is {lake_id(local)}",
            fix="Name a copy of this lake, or an empty place",
            path=url,
        )


def no_lake(url: str) -> TableNotFound:
    """The error for a place without a lake."""
    return TableNotFound(
        f"there is no lake at {url}",
        why=f"It has no {CONFIG}, which the first push puts last",
        fix="Push to it first, to the end: gapless lake sync push",
        path=url,
    )


def config_relation(local: bytes | None, remote: bytes | None, base: str | None) -> Relation:
    """How two `lake.toml` stand, by the digest of what both had."""
    if local == remote:
        return "same"
    if local is None or remote is None:
        return "not here" if local is None else "not there"
    if base is not None and digest(remote) == base:
        return "ours is newer"
    return "theirs is newer" if base is not None and digest(local) == base else "diverged"


def sync_config(local: Side, remote: Side, direction: Direction, keep: str) -> Conflict | None:
    """Bring `lake.toml` over, as the last of all; gives the conflict where both sides changed it. Raises StoreError."""
    ours, theirs = tagged(local.env, CONFIG), tagged(remote.env, CONFIG)
    our_data, their_data = (None if one is None else one.data for one in (ours, theirs))
    relation = config_relation(our_data, their_data, base_of(local.env, remote.url))
    to_theirs = relation == "not there" or (relation == "ours is newer" and direction == "push")
    to_ours = relation == "not here" or (relation == "theirs is newer" and direction == "pull")
    if relation == "diverged":
        to_theirs, to_ours = keep == "ours" and direction == "push", keep == "theirs"
        if keep == "ours" and direction == "pull":
            return None  # a push with "ours" brings it over
    done = our_data
    if to_theirs and our_data is not None and direction == "push":
        done = our_data if replaced(remote.env, CONFIG, our_data, theirs) is not None else None
    elif to_ours and their_data is not None:
        done = their_data if replaced(local.env, CONFIG, their_data, ours) is not None else None
    elif relation == "diverged":
        done = None
    elif relation != "same":
        return None  # the other direction brings it
    if done is None:
        return Conflict(
            kind="config",
            table=None,
            what=f"{CONFIG} was changed on both sides. Say which one stays: --config ours, or --config theirs and then add your lines",
            difference=difference(their_data, our_data, remote.url),
        )
    _remember(local.env, remote.url, done)
    return None


def difference(theirs: bytes | None, ours: bytes | None, url: str) -> str:
    """The lines that differ."""
    one, other = ((data or b"").decode(errors="replace").splitlines(keepends=True) for data in (theirs, ours))
    return "".join(difflib.unified_diff(one, other, f"{url}/{CONFIG}", CONFIG, n=1))


def base_of(env: Environment, url: str) -> str | None:
    """The digest of the `lake.toml` that both sides had."""
    return _state(env).get(url)


def _state(env: Environment) -> Mapping[str, str]:
    try:
        found = json.loads(env.store.get(STATE))["config"]
        return {str(url): str(one) for url, one in found.items()}
    except (ObjectNotFound, ValueError, TypeError, KeyError, AttributeError):
        return {}  # torn, it means that nothing is known: what differs is shown


def _remember(env: Environment, url: str, data: bytes) -> None:
    known = _state(env)
    if known.get(url) != digest(data):
        body = json.dumps({"format": 1, "config": {**known, url: digest(data)}}, indent=1, sort_keys=True)
        env.store.put(STATE, body.encode(), mode="overwrite")
