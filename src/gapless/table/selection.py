"""Identities as callers name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from gapless.errors import InvalidOption
from gapless.model.index import Identity, IndexSpec
from gapless.scan.range import check_entity_values, check_identity_value


def parse_identities(given: Iterable[object], index: IndexSpec, schema: pa.Schema | None) -> list[Identity]:
    """Identities as tuples of checked values, from tuples, mappings, or bare values where there is one entity column."""
    return [_parse_identity(one, index, schema) for one in given]


def select_identities(entity: Mapping[str, object], index: IndexSpec, schema: pa.Schema | None) -> Callable[[Identity], bool]:
    """Whether an identity has the asked entity values; raises UnknownColumn or InvalidOption for a wrong filter."""
    wanted = [
        (index.entity.index(name), frozenset(values)) for name, values in check_entity_values(index, schema, entity).items()
    ]
    return lambda identity: all(identity[position] in values for position, values in wanted)


def _parse_identity(given: object, index: IndexSpec, schema: pa.Schema | None) -> Identity:
    names = index.entity
    if isinstance(given, Mapping) and set(given) == set(names):
        values: Sequence[object] = [given[name] for name in names]
    elif isinstance(given, Sequence) and not isinstance(given, str) and len(given) == len(names):
        values = given
    elif (len(names) == 1 and not isinstance(given, Mapping | Sequence)) or (isinstance(given, str) and len(names) == 1):
        values = [given]
    else:
        raise InvalidOption(
            f"identity {given!r} does not have one value for each entity column",
            why=f"The entity columns are {', '.join(map(repr, names)) or 'none'}",
            fix="Pass tuples in that order, or mappings with those keys",
            option="identities", value=given,
        )  # fmt: skip
    return tuple(
        check_identity_value(name, None if schema is None else schema.field(name).type, value)
        for name, value in zip(names, values, strict=True)
    )
