"""Which column types another one holds: what input fits a declared type without loss, and what a column may be widened to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from gapless.errors import nearest
from gapless.model.time.timestamp_advice import how_to_timestamp
from gapless.model.types import bare_type, is_any_list

Reason = str
Rule = Callable[[pa.DataType, pa.DataType], "Reason | None"]
MANTISSA_BITS = {pa.float16(): 11, pa.float32(): 24, pa.float64(): 53}
_FINER = {"s": 0, "ms": 1, "us": 2}
_WIDER = (
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(),
    pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
)  # fmt: skip


def why_not(source: pa.DataType, target: pa.DataType) -> Reason | None:
    """Why values of `source` cannot be kept as the declared type `target`; None where they can.

    Units of time may differ either way: whether every value survives is seen when it is converted. Names of list and map
    children, nullability and encodings (dictionary, large, view) do not count. A struct may lack nullable fields.

    >>> why_not(pa.int64(), pa.int32())
    'int32 does not hold every int64'
    """
    return compare_types(source, target, why_leaf_does_not_fit)


def why_not_widen(source: pa.DataType, target: pa.DataType) -> Reason | None:
    """Why a table cannot read every value that it holds as `source` as the declared type `target`, exactly; None where it can.

    Stricter than `why_not`: where a value would decide, as between units that reach unlike far, the types do not fit. Declared
    timestamps in s and ms are stored in µs, and so reach no further. A struct may gain nullable fields.

    >>> why_not_widen(pa.timestamp("us"), pa.timestamp("ns"))
    'timestamp[ns] does not reach as far as timestamp[us]'
    """
    return compare_types(source, target, _widening)


def wider_types(source: pa.DataType) -> tuple[str, ...]:
    """What a column of a type without children may be widened to, as texts.

    >>> wider_types(pa.int32())
    ('int64', 'double')
    """
    units = [pa.timestamp(unit, source.tz) for unit in _FINER] if pa.types.is_timestamp(source) else []
    known = [type_ for type_ in (*_WIDER, *units) if type_ != source and why_not_widen(source, type_) is None]
    more = f"a decimal of scale {source.scale} and more than {source.precision} digits" if pa.types.is_decimal(source) else ""
    return (*map(str, known), *([more] if more else []))


def compare_types(source: pa.DataType, target: pa.DataType, rule: Rule, *, sizes: bool = True) -> Reason | None:
    """Why values of `source` are not kept as `target` by a rule for types without children; None where they are.

    `sizes` demands of a list that its type says the size that lists of `target` have.
    """
    given, source = source, bare_type(source)
    if pa.types.is_null(source) or source == target:
        return None
    if pa.types.is_timestamp(target) and (how := how_to_timestamp(given, target.tz)):
        return how
    below = partial(compare_types, rule=rule, sizes=sizes)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _struct(source, target, below)
    if is_any_list(source) and is_any_list(target):
        return (_size(source, target) if sizes else None) or _child("its values", source.value_type, target.value_type, below)
    if pa.types.is_map(source) and pa.types.is_map(target):
        key, value = (source.key_type, target.key_type), (source.item_type, target.item_type)
        return _child("key", *key, below) or _child("value", *value, below)
    return rule(source, target)


def _child(name: str, source: pa.DataType, target: pa.DataType, below: Rule) -> Reason | None:
    reason = below(source, target)
    return f"in {name}: {reason}" if reason else None


def _size(source: pa.DataType, target: pa.DataType) -> Reason | None:
    if not pa.types.is_fixed_size_list(target):
        return None
    size = source.list_size if pa.types.is_fixed_size_list(source) else None
    return None if size == target.list_size else f"every list must have {target.list_size} values by its type"


def _struct(source: pa.DataType, target: pa.DataType, below: Rule) -> Reason | None:
    counts = Counter(child.name for child in source)
    declared = {child.name: child for child in target}
    for name, count in counts.items():
        if count > 1:
            return f"its field {name!r} comes {count} times"
        if name not in declared:
            return f"its field {name!r} is not in the table. {nearest(name, declared)}"
    for child in target:
        if child.name not in counts and not child.nullable:
            return f"its field {child.name!r} is missing and may not be null"
    reasons = (_child(repr(child.name), child.type, declared[child.name].type, below) for child in source)
    return next((reason for reason in reasons if reason), None)


def _widening(source: pa.DataType, target: pa.DataType) -> Reason | None:
    t = pa.types
    if source == target:
        return None
    if reason := why_leaf_does_not_fit(source, target):
        return reason
    if t.is_timestamp(source):
        return _reach(source, target)
    if t.is_decimal(source) and source.scale != target.scale:
        return "the scale of a decimal is fixed"
    coarser = t.is_time(source) and (source.bit_width == 64 or target == pa.time32("s"))
    return f"{target} does not hold every {source}" if coarser or t.is_duration(source) else None


def _reach(source: pa.DataType, target: pa.DataType) -> Reason | None:
    """The rule for timestamps: to a finer unit, but for ns, which reach from 1677 to 2262 alone."""
    if source.unit == target.unit:
        return None
    if target.unit == "ns":
        return f"{target} does not reach as far as {source}"
    coarser = source.unit == "ns" or _FINER[source.unit] > _FINER[target.unit]
    return f"{target} is coarser than {source}" if coarser else None


def why_leaf_does_not_fit(source: pa.DataType, target: pa.DataType) -> Reason | None:
    """`why_not` of types without children."""
    t = pa.types
    if t.is_timestamp(source) and t.is_timestamp(target):
        return _timestamp(source, target)
    if t.is_integer(source) and (t.is_integer(target) or t.is_floating(target)):
        return None if _is_exact(source, target) else f"{target} does not hold every {source}"
    if t.is_floating(source) and t.is_floating(target):
        return None if source.bit_width <= target.bit_width else f"{target} does not hold every {source}"
    if t.is_decimal(source) and t.is_decimal(target):
        return _decimal(source, target)
    same_kind = any(kind(source) and kind(target) for kind in (t.is_duration, t.is_time, t.is_date))
    return None if same_kind else "no lossless conversion"


def _is_exact(source: pa.DataType, target: pa.DataType) -> bool:
    magnitude_bits = source.bit_width - pa.types.is_signed_integer(source)
    if pa.types.is_floating(target):
        return bool(magnitude_bits <= MANTISSA_BITS[target])
    if pa.types.is_signed_integer(source) and not pa.types.is_signed_integer(target):
        return False
    return bool(magnitude_bits <= target.bit_width - pa.types.is_signed_integer(target))


def _decimal(source: pa.DataType, target: pa.DataType) -> Reason | None:
    if target.scale < source.scale:
        return f"{target.scale} decimal places do not hold {source.scale}"
    if target.precision - target.scale < source.precision - source.scale:
        return f"{target.precision - target.scale} digits before the point do not hold {source.precision - source.scale}"
    return None


def _timestamp(source: pa.DataType, target: pa.DataType) -> Reason | None:
    if (source.tz is None) == (target.tz is None):
        return None
    if source.tz is None:
        return "naive times are not instants: say their zone, as in pc.assume_timezone(column, 'UTC') or tz_localize"
    return "instants are not naive times: pass wall times, as from pc.local_timestamp(column)"
