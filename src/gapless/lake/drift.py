"""What becomes of rows whose columns are not those that a table has: new versions of its columns, refusals, quarantine. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, cast

import pyarrow as pa

from gapless.errors import InvalidOption, SchemaMismatch, nearest, one_of, shorten
from gapless.lake.layout.names import map_columns
from gapless.lake.layout.schema import LakeSchema
from gapless.model.types import children, declared_field, is_any_list
from gapless.model.widening import why_not_widen

Action = Literal["allow", "refuse", "quarantine"]
ACTIONS: tuple[Action, ...] = ("allow", "refuse", "quarantine")
_PRESETS: Mapping[str, Action] = {"evolve": "allow", "freeze": "refuse", "quarantine": "quarantine"}

HoldsExactly = Callable[[str, pa.DataType], bool]
"""Whether all values that are stored of a column are exact in another type, which does not hold every value of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftPolicy:
    """What is done with rows that bring a change of each kind: "allow" it, "refuse" the rows, or put those into "quarantine" that need it."""

    add: Action = "allow"
    """A column that the table does not have, or whose type no value had told."""
    widen: Action = "allow"
    """A wider type that holds all values of the old one exactly, such as int64 for int32."""
    text: Action = "allow"
    """A number or boolean where texts are, or the other way round: the column becomes text."""
    nested: Action = "allow"
    """A change within a struct, list or map, such as a further field."""

    @classmethod
    def parse(cls, given: object) -> DriftPolicy:
        """Read "evolve", "freeze", "quarantine", or an action by kind of change. Raises InvalidOption."""
        if isinstance(given, DriftPolicy):
            return given
        if isinstance(given, str):
            action = _PRESETS[one_of("drift", given, tuple(_PRESETS))]
            return cls(add=action, widen=action, text=action, nested=action)
        kinds = [one.name for one in fields(cls)]
        if not isinstance(given, Mapping):
            raise InvalidOption(
                f"drift={shorten(given)} is no policy",
                why="It is one of 'evolve', 'freeze' and 'quarantine', or says what to do by kind of change",
                fix="Pass such as {'add': 'allow', 'text': 'quarantine'}",
                option="drift",
                value=given,
            )
        for name in given:
            if name not in kinds:
                raise InvalidOption(
                    f"drift has {name!r}, which is no kind of change",
                    fix=nearest(str(name), kinds),
                    option="drift",
                    value=given,
                )
        return cls(**{name: one_of(f"drift.{name}", value, ACTIONS) for name, value in given.items()})

    @property
    def body(self) -> dict[str, str]:
        """As JSON's values."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What rows of some fields mean for a table's columns."""

    schema: LakeSchema
    """With all that is allowed; the same object where nothing is new."""
    quarantined: Mapping[str, str] = field(default_factory=dict)
    """By field: why rows with a value in it are put aside."""


@dataclass(frozen=True, slots=True)
class _Change:
    kind: str
    """That of the policy; "" where nothing changes, "never" where no policy helps."""
    type: pa.DataType
    why: str = ""


def declared(given: pa.Schema) -> pa.Schema:
    """The fields of rows in the types that tables hold. Raises UnsupportedType, SchemaMismatch for names within structs that differ in case only."""
    fields_ = [declared_field(one) for one in given]
    for one in fields_:
        _check_names(one.type, one.name)
    return pa.schema([pa.field(one.name, one.type) for one in fields_])


def _check_names(type_: pa.DataType, path: str) -> None:
    if pa.types.is_struct(type_):
        folded: dict[str, str] = {}
        for child in type_:
            other = folded.setdefault(child.name.casefold(), child.name)
            if other != child.name:
                raise SchemaMismatch(
                    f"the struct {path!r} has the fields {other!r} and {child.name!r}",
                    why="Readers of the lake do not tell names apart by case, and one value would hide the other",
                    fix="Rename one of them at the source, or take the struct apart into columns",
                    differences=(f"{path}.{child.name}",),
                )
    for child in children(type_):
        _check_names(child.type, f"{path}.{child.name}")


def decide(schema: LakeSchema, given: pa.Schema, policy: DriftPolicy, run: str, holds_exactly: HoldsExactly) -> Drift:
    """Hold the declared fields of rows against a table's columns.

    Raises SchemaMismatch where a change is refused, by the policy or since no type holds the values of both.
    """
    mapping = map_columns(given.names, schema.fields)
    columns = {one.name: one.type for one in schema.columns}
    kept, changes, refused, aside = dict(schema.fields), list[str](), list[str](), dict[str, str]()
    for one in sorted(given, key=lambda one: one.name):
        name = mapping[one.name]
        change = _change(columns.get(name), one.type, name, holds_exactly)
        told = f"{name}: {change.why}"
        action = "allow" if not change.kind else "refuse" if change.kind == "never" else getattr(policy, change.kind)
        if change.kind == "never" and policy.nested == "quarantine":
            action = "quarantine"
        if action == "refuse" and pa.types.is_null(one.type):
            continue  # it has no value that could be lost
        if action == "allow":
            kept[one.name] = name
            columns[name] = change.type
            changes += [told] if change.kind else []
        elif action == "quarantine":
            aside[one.name] = told
        else:
            refused.append(told)
    if refused:
        raise SchemaMismatch(
            f"the rows do not have the table's columns: {'; '.join(refused)}",
            why="Its drift policy refuses these changes, or no type holds the values of both",
            fix="Mend the rows, or allow the change: lake.set_drift(table, {'add': 'allow', …})",
            differences=tuple(refused),
        )
    if not changes:
        return Drift(schema=schema, quarantined=aside)
    new = LakeSchema(
        version=schema.version + 1,
        columns=pa.schema([pa.field(name, type_) for name, type_ in columns.items()]),
        fields=kept,
        changes=tuple(changes),
        run=run,
    )
    return Drift(schema=new, quarantined=aside)


def _change(ours: pa.DataType | None, given: pa.DataType, name: str, holds_exactly: HoldsExactly) -> _Change:
    if ours is None:
        return _Change("add", given, f"a new column, {given}")
    if ours == given or pa.types.is_null(given):
        return _Change("", ours)
    if pa.types.is_null(ours):
        return _Change("add", given, f"its first values are {given}")
    if (both := merged_type(ours, given)) is not None:
        if both == ours:
            return _Change("", ours)
        nested = any(children(both))
        return _Change("nested" if nested else "widen", both, f"{ours} becomes {both}")
    if _is_number(ours) and _is_number(given):
        if pa.types.is_floating(ours) and pa.types.is_integer(given):
            return _Change("", ours)  # by value, each of which is exact or refused
        if pa.types.is_floating(given) and holds_exactly(name, pa.float64()):
            return _Change("widen", pa.float64(), f"{ours} becomes double, which holds all values so far exactly")
    if _is_plain(ours) and _is_plain(given):
        if pa.types.is_string(ours):
            return _Change("text", ours, f"{given} came, and is stored as text")
        return _Change("text", pa.string(), f"{ours} becomes text, since {given} came")
    return _Change("never", ours, f"no type holds both {ours} and {given}")


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _is_plain(type_: pa.DataType) -> bool:
    """Whether every tool writes its values as the same text."""
    return bool(_is_number(type_) or pa.types.is_boolean(type_) or pa.types.is_string(type_))


def merged_type(ours: pa.DataType, given: pa.DataType) -> pa.DataType | None:
    """The type that holds every value of both exactly, ours where it does; None where there is none.

    >>> merged_type(pa.struct({"a": pa.int32()}), pa.struct({"b": pa.string()}))
    StructType(struct<a: int32, b: string>)
    """
    if ours == given or pa.types.is_null(given):
        return ours
    if pa.types.is_null(ours):
        return given
    if pa.types.is_struct(ours) and pa.types.is_struct(given):
        return _merged_struct(ours, given)
    if is_any_list(ours) and is_any_list(given):
        item = merged_type(ours.value_type, given.value_type)
        return None if item is None else ours if item == ours.value_type else pa.list_(item)
    if any(children(ours)) or any(children(given)):
        return ours if why_not_widen(given, ours) is None else None
    if why_not_widen(given, ours) is None:
        return ours
    return given if why_not_widen(ours, given) is None else None


def common_type(ours: pa.DataType, theirs: pa.DataType) -> pa.DataType | None:
    """The type to which values that are stored in both can be cast: as `merged_type`, or text for texts and what is written as text; None where
    there is none.
    """
    merged = merged_type(ours, theirs)
    if merged is None and _is_plain(ours) and _is_plain(theirs) and not (_is_number(ours) and _is_number(theirs)):
        return pa.string()
    return merged


def _merged_struct(ours: pa.DataType, given: pa.DataType) -> pa.DataType | None:
    theirs = {child.name.casefold(): child for child in given}
    merged = list[pa.Field]()
    for child in ours:
        other = theirs.pop(child.name.casefold(), None)
        type_ = child.type if other is None else merged_type(child.type, other.type)
        if type_ is None or (other is not None and other.name != child.name):
            return None
        merged.append(pa.field(child.name, type_))
    return pa.struct([*merged, *(pa.field(child.name, child.type) for child in given if child.name.casefold() in theirs)])


def parse_stored_policy(body: Any) -> DriftPolicy:
    """A policy as a table's settings have it; raises KeyError, TypeError or ValueError."""
    return DriftPolicy(**{name: cast("Action", body[name]) for name in ("add", "widen", "text", "nested")})
