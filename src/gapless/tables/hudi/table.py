"""Copy-on-write Hudi tables: made, opened, and changed by staged rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from gapless.errors import (
    InvalidOption,
    ObjectExists,
    TableExists,
    TableNotFound,
    UnknownColumn,
    UnsupportedType,
    nearest,
)
from gapless.formats.hudi.instants import CompletedInstant, next_digits, time_of
from gapless.formats.hudi.properties import encode_properties
from gapless.formats.hudi.row_keys import key_problem
from gapless.formats.hudi.table_commits import TableCommit, encode_table_commit
from gapless.formats.hudi.table_config import NEW_VERSION, HudiTableConfig, new_properties
from gapless.model.operation import SequenceId
from gapless.runtime.conditional_puts import put_once
from gapless.runtime.environment import Environment
from gapless.store.open import open_store, probe_put_if_match, table_name
from gapless.tables.hudi.care import cleaned
from gapless.tables.hudi.claim import OWN_FOLDER
from gapless.tables.hudi.commit import known_outcome, under_lock
from gapless.tables.hudi.rows import table_columns
from gapless.tables.hudi.timeline import PROPERTIES, HudiState, HudiTimeline
from gapless.tables.shared.handle import open_environment, table_exists
from gapless.tables.shared.landing import ChangeOutcome

CREATE_OPTIONS = ("record_key", "partition_by", "order_by", "hive_style", "url_encode", "table_name")
"""How a table is made: the columns that tell its rows apart (none: Hudi numbers them), those that divide it into folders, those that tell
newer rows of a key from older ones, whether folders are called `column=value`, whether characters are escaped in them, and its name."""
_IDENTITY = f"{OWN_FOLDER}/table.json"


@dataclass(slots=True)
class HudiTable:
    """A table, and the newest state of it that is known."""

    env: Environment
    own_env: Environment
    """Its root is the folder in the table that is ours: what is prepared lies there, where Hudi does not look."""
    timeline: HudiTimeline
    state: HudiState
    id: str
    """What tells it from a table that is made in its place."""

    @classmethod
    def open(cls, location: str, storage_options: Mapping[str, str] | None = None) -> Self:
        """The table there. Raises TableNotFound, NotSupported, UnsupportedTable, CorruptTable, StoreError."""
        env = open_environment(location, storage_options)
        timeline = HudiTimeline(env)
        state = timeline.load()
        own = Environment(store=open_store(_below(location), storage_options), clock=env.clock, ids=env.ids)
        probe_put_if_match(own.store)
        told = json.dumps({"id": env.ids.uuid()}).encode()
        found = put_once(env, _IDENTITY, told, "Try again once the store answers")
        return cls(env, own, timeline, state, str(json.loads(found)["id"]))

    @classmethod
    def create(
        cls, location: str, schema: pa.Schema, options: Mapping[str, Any], storage_options: Mapping[str, str] | None = None
    ) -> Self:
        """A new table with the columns of such rows; `options` are of CREATE_OPTIONS. Raises TableExists, InvalidOption, UnknownColumn,
        UnsupportedType, StoreError.
        """
        env = open_environment(location, storage_options)
        config = parse_create(options, schema, table_name(location))
        _, text = table_columns(schema, config.name)
        try:
            HudiTimeline(env).load()
        except TableNotFound:
            pass
        else:
            raise _exists(env.store.url)
        # Before the properties, which make it a table: files of before a timeline's first instant would count as committed.
        requested = next_digits(env.clock.now_ns(), "")
        first = CompletedInstant(requested, next_digits(env.clock.now_ns(), requested), "commit")
        env.store.put(first.path, encode_table_commit(TableCommit(operation="UNKNOWN", schema=text)), mode="overwrite")
        try:
            env.store.put(PROPERTIES, encode_properties(new_properties(config, text)))
        except ObjectExists:
            env.store.delete(first.path)
            raise _exists(env.store.url) from None
        return cls.open(location, storage_options)

    @property
    def version(self) -> int:
        """The newest instant that is known, as a number."""
        return self.state.version

    def refresh(self) -> HudiState:
        """The newest state. Raises as `open`."""
        self.state = self.timeline.load()
        return self.state

    def known(self, operation: SequenceId, kind: str) -> ChangeOutcome | None:
        """What the newest state tells of an operation. Raises OperationReused."""
        return known_outcome(self.refresh(), operation, kind)

    def clean(self, retained: int) -> int:
        """Remove files that no read as of one of the newest `retained` commits asks for; how many."""
        return under_lock(self.timeline, lambda lock, state: cleaned(self.timeline, state, lock, retained))


def parse_create(options: Mapping[str, Any], schema: pa.Schema, name: str) -> HudiTableConfig:
    """What a new table is. Raises InvalidOption, UnknownColumn, UnsupportedType."""
    for option in options:
        if option not in CREATE_OPTIONS:
            raise InvalidOption(
                f"create has {option!r}, with which no hudi table is made",
                why=f"It is a dict of {', '.join(CREATE_OPTIONS)}",
                fix=nearest(str(option), CREATE_OPTIONS),
                option="create",
                value=options,
            )
    named = {option: _columns(option, options.get(option), schema) for option in ("record_key", "partition_by", "order_by")}
    for option in ("record_key", "partition_by"):
        for column in named[option]:
            kind = schema.field(column).type
            if why := key_problem(kind.value_type if pa.types.is_dictionary(kind) else kind):
                raise UnsupportedType(
                    f"{option} names column {column!r} of type {kind}, by which Hudi cannot tell rows apart",
                    why=why,
                    fix="Name columns of texts, integers, dates or times",
                    column=column,
                    type=str(kind),
                )
    return HudiTableConfig(
        name=_text("table_name", options.get("table_name", name)),
        version=NEW_VERSION,
        record_key=named["record_key"],
        partition_by=named["partition_by"],
        order_by=named["order_by"],
        hive_style=_flag("hive_style", options.get("hive_style", True)),
        url_encoded=_flag("url_encode", options.get("url_encode", False)),
    )


def instant_time(version: int) -> int | None:
    """Nanoseconds since 1970 UTC of a version; None for that of an empty table."""
    return time_of(f"{version:017d}")


def _columns(option: str, given: object, schema: pa.Schema) -> tuple[str, ...]:
    names = () if given is None else (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise InvalidOption(
            f"{option}={given!r} names no columns",
            why="It is one column or several different ones",
            fix=f'Pass {option}="id" or {option}=["site", "id"]',
            option=option,
            value=given,
        )
    for name in names:
        if name not in schema.names:
            raise UnknownColumn(
                f"{option} names {name!r}, which the rows do not have",
                why=f"They have {', '.join(map(repr, schema.names))}",
                fix=nearest(name, schema.names),
                column=name,
            )
    return tuple(names)


def _flag(option: str, given: object) -> bool:
    if isinstance(given, bool):
        return given
    raise InvalidOption(f"{option}={given!r} is neither yes nor no", fix="Pass True or False", option=option, value=given)


def _text(option: str, given: object) -> str:
    if isinstance(given, str) and given.isprintable() and given.isascii() and given:
        return given
    raise InvalidOption(
        f"{option}={given!r} is no name of a Hudi table",
        why="Its properties keep printable ASCII",
        fix=f'Pass such as {option}="trips"',
        option=option,
        value=given,
    )


def _below(location: str) -> str:
    return f"{location.rstrip('/')}/{OWN_FOLDER}"


def _exists(path: str) -> TableExists:
    return table_exists(path, "It has hoodie.properties", "Open it, or choose another path")
