"""A change record: what happened to one row or document, where, when, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from gapless.cdc.json_values import Json, copy_json, json_text, parse_json
from gapless.errors import InvalidRecord, NullKey, nearest, shorten

OPERATIONS: Final = ("c", "u", "d", "r")
"""Create, update, delete, and read by a snapshot: Debezium's letters."""
Sequence = int | tuple[int, ...]
_HIGHEST: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSource:
    """Where a change was made."""

    system: str
    """Such as "postgresql", "mongodb" or "gapless"."""
    database: str | None = None
    collection: str | None = None
    """The collection or table."""
    partition: int | None = None
    server_id: str | None = None

    def __post_init__(self) -> None:
        """Raise InvalidRecord for what is no such place."""
        for name in ("system", "database", "collection", "server_id"):
            value = getattr(self, name)
            if not (isinstance(value, str) or (value is None and name != "system")) or value == "":
                raise _refuse(f"_source.{name}", value, "It is a text that is not empty", f'Pass {name}="…"')
        if self.partition is not None and not _is_number(self.partition):
            raise _refuse("_source.partition", self.partition, "It is a number from 0 on", "Pass partition=0")

    @classmethod
    def of(cls, given: object) -> ChangeSource:
        """Of a ChangeSource or a mapping of its fields. Raises InvalidRecord."""
        if isinstance(given, ChangeSource):
            return given
        if not isinstance(given, Mapping):
            raise _refuse(
                "_source", given, "It says where the change was made", 'Pass {"system": "mongodb", "collection": "users"}'
            )
        known = tuple(one.name for one in fields(cls))
        _check_names(given, known, "_source.")
        return cls(**{"system": None, **given})

    @property
    def body(self) -> dict[str, Json]:
        """The fields by name; those that are None are left out."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One change. Values are JSON's: None, bool, int of 64 bits, finite float, str, list, dict; others are refused by their path.

    Raises InvalidRecord for a field that does not fit its operation or holds what JSON lacks, NullKey for `_id=None`.
    """

    _id: Json
    """Which row or document: a value, or a dict of the key's columns."""
    _seq: Sequence
    """Its place in the order of its source: a number from 0 to 2^63 - 1, or several, compared one after the other. With `_source` it tells changes apart."""
    _op: str
    """"c" (created), "u" (updated), "d" (deleted) or "r" (read by a snapshot)."""
    _before: dict[str, Json] | None = None
    """How it was. Always None for "c" and "r"; None for "u" and "d" where the source does not tell."""
    _after: dict[str, Json] | None = None
    """How it is from now on: None for "d", and for "d" alone."""
    _ts: int
    """When, in nanoseconds since 1970 UTC."""
    _source: ChangeSource
    _txn: str | None = None
    """The transaction, as the source calls it."""

    def __post_init__(self) -> None:
        """Check the fields, and copy what could be changed from outside."""
        if self._id is None:
            raise NullKey(
                "a change record has _id=None",
                why="It would say of no row what happened to it",
                fix="Give it the key of the row, or set such records aside",
                column="_id",
                row=0,
            )
        if self._op not in OPERATIONS:
            raise _refuse("_op", self._op, "It is one of c (created), u (updated), d (deleted), r (read)", 'Pass _op="c"')
        if not _is_number(self._ts, -_HIGHEST - 1):
            raise _refuse("_ts", self._ts, "It is a whole number of nanoseconds since 1970 UTC", "Pass time.time_ns()")
        txn: object = self._txn
        if txn is not None and not (isinstance(txn, str) and txn):
            raise _refuse("_txn", self._txn, "It is a text that is not empty, or None", 'Pass _txn="…"')
        self._set("_seq", _parse_sequence(self._seq))
        self._set("_source", ChangeSource.of(self._source))
        self._set("_id", copy_json(self._id, "_id"))
        for name in ("_before", "_after"):
            self._set(name, self._image(name, getattr(self, name)))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _image(self, name: str, value: object) -> dict[str, Json] | None:
        has_none = self._op in ("c", "r") if name == "_before" else self._op == "d"
        if value is None:
            if name == "_after" and not has_none:
                raise _refuse(
                    name,
                    value,
                    f"After {self._op!r} the row is there, and the record does not say how it is",
                    'Pass _after={…}; where the row is gone, _op="d"',
                )
            return None
        if has_none:
            raise _refuse(
                name,
                value,
                f"{'Before' if name == '_before' else 'After'} {self._op!r} there is no row",
                f"Leave {name} out",
            )
        if not isinstance(value, Mapping):
            raise _refuse(name, value, "It is the row or document, by its fields", f"Pass {name}={{…}}")
        image: dict[str, Json] = copy_json(dict(value), name)
        return image

    def __hash__(self) -> int:
        """By place, as its values may be dicts."""
        return hash(self.key)

    @property
    def order(self) -> tuple[int, ...]:
        """`_seq` as numbers that are compared one after the other."""
        return self._seq if isinstance(self._seq, tuple) else (self._seq,)

    @property
    def key(self) -> tuple[ChangeSource, tuple[int, ...]]:
        """What tells changes apart: two records with one key are one change that came twice."""
        return self._source, self.order

    def to_json(self) -> str:
        """As a JSON object with the fields' names. Integers are exact; readers must keep 64 bits, as Python's do."""
        return json_text(
            {
                "_id": self._id,
                "_seq": list(self._seq) if isinstance(self._seq, tuple) else self._seq,
                "_op": self._op,
                "_before": self._before,
                "_after": self._after,
                "_ts": self._ts,
                "_source": self._source.body,
                "_txn": self._txn,
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` gave. Raises InvalidRecord, which names the field, and NullKey."""
        body = parse_json(text, "a change record")
        if not isinstance(body, dict):
            raise _refuse("a change record", body, "It is a JSON object", "Send one object a record")
        known = tuple(one.name for one in fields(cls))
        _check_names(body, known, "")
        for name in ("_id", "_seq", "_op", "_ts", "_source"):
            if name not in body:
                raise _refuse(name, None, "A record has it, and this one lacks it", "Send what to_json() gave")
        sequence = body["_seq"]
        return cls(**{**body, "_seq": tuple(sequence) if isinstance(sequence, list) else sequence})


def _parse_sequence(given: object) -> Sequence:
    numbers = given if isinstance(given, tuple) else (given,)
    if not numbers or not all(_is_number(one) for one in numbers):
        raise _refuse(
            "_seq", given, "It is a number from 0 to 2^63 - 1, or a tuple of such", "Pass _seq=1, or _seq=(file, position, row)"
        )
    return given  # type: ignore[return-value]  # just checked


def _is_number(value: object, least: int = 0) -> bool:
    return type(value) is int and least <= value <= _HIGHEST


def _check_names(given: Mapping[Any, object], known: tuple[str, ...], prefix: str) -> None:
    for name in given:
        if name not in known:
            raise InvalidRecord(
                f"a change record has no field {prefix}{name}",
                why=f"There are {', '.join(known)}",
                fix=nearest(str(name), known),
                field=f"{prefix}{name}",
                value=given[name],
            )


def _refuse(field: str, value: object, why: str, fix: str) -> InvalidRecord:
    return InvalidRecord(f"{field} is {shorten(value)}", why=why, fix=fix, field=field, value=value)
