"""Delta schemas of every shape, for Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from gapless.formats.delta.schema.types import ArrayType, DeltaType, MapType, PrimitiveType, StructField, StructType

NAMES = (
    "string",
    "long",
    "integer",
    "short",
    "byte",
    "float",
    "double",
    "boolean",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
)

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
decimals = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})"))
primitives = (st.sampled_from(NAMES) | decimals).map(PrimitiveType)
metadata = st.dictionaries(texts, texts | st.integers() | st.booleans() | st.lists(st.integers(), max_size=2), max_size=2)


def _fields(types: st.SearchStrategy[DeltaType]) -> st.SearchStrategy[StructType]:
    field = st.builds(StructField, name=texts, type=types, nullable=st.booleans(), metadata=metadata)
    fields = st.lists(field, min_size=1, max_size=3, unique_by=lambda one: one.name.lower())
    return fields.map(lambda found: StructType(fields=tuple(found)))


def _nested(inner: st.SearchStrategy[DeltaType]) -> st.SearchStrategy[DeltaType]:
    arrays = st.builds(ArrayType, element=inner, contains_null=st.booleans())
    maps = st.builds(MapType, key=inner, value=inner, contains_null=st.booleans())
    return arrays | maps | _fields(inner)


types: st.SearchStrategy[DeltaType] = st.recursive(primitives, _nested, max_leaves=5)
schemas = _fields(types)
