"""Record keys and partition paths of rows, as Hudi's key generators write them. Pure."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidValue
from gapless.formats.hudi.table_config import HudiTableConfig

NULL_KEY, EMPTY_KEY, DEFAULT_PARTITION = "__null__", "__empty__", "__HIVE_DEFAULT_PARTITION__"
_UNSAFE = re.compile(r'[\x00-\x1f"#%\'*/:=?\\\x7f{}\[\]^]')
"""What Hive escapes in the names of folders."""


def key_problem(kind: pa.DataType) -> str | None:
    """Why values of a type make no record keys or partition paths; None where they do."""
    t = pa.types
    if t.is_integer(kind) or t.is_string(kind) or t.is_large_string(kind) or t.is_boolean(kind) or t.is_date(kind):
        return None
    if t.is_timestamp(kind):
        return None
    return f"Hudi keeps keys and partitions as texts, and texts of {kind} differ from writer to writer"


def record_keys(rows: pa.Table, config: HudiTableConfig, sequence: pa.Array) -> pa.Array:
    """The record key of each row: of one column its value, of several `a:1,b:2`; the row's number of `sequence` where no column is a key."""
    if not config.record_key:
        return sequence
    parts = [_key_text(rows.column(name)) for name in config.record_key]
    if len(parts) == 1 and not config.named_keys:
        return parts[0]
    named = [pc.binary_join_element_wise(f"{name}:", part, "") for name, part in zip(config.record_key, parts, strict=True)]
    return named[0] if len(named) == 1 else pc.binary_join_element_wise(*named, ",")


def partition_paths(rows: pa.Table, config: HudiTableConfig) -> pa.Array:
    """The folder of each row below the base path; empty for a table without partitions. Raises InvalidValue for a value that no folder can
    be named by.
    """
    if not config.partition_by:
        return pa.repeat(pa.scalar("", pa.string()), rows.num_rows)
    parts = []
    for name in config.partition_by:
        texts = _folders(_text(rows.column(name)), name, config)
        parts.append(pc.binary_join_element_wise(f"{name}=", texts, "") if config.hive_style else texts)
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")


def _folders(texts: pa.Array, name: str, config: HudiTableConfig) -> pa.Array:
    known = texts.dictionary_encode()
    values = known.dictionary.to_pylist()
    folders = [DEFAULT_PARTITION if not one else _escaped(one) if config.url_encoded else one for one in values]
    for value in values:
        if value and not config.url_encoded and (_UNSAFE.search(value) or value.startswith(".")):
            raise InvalidValue(
                f"column {name!r} has the value {value!r}, by which no partition of a Hudi table can be named",
                why="Its folder has the value in its name, and the table does not escape characters there",
                fix="Change the value, or make the table with url_encode=True",
                column=name,
                row=texts.index(value).as_py(),
                value=value,
            )
    found = pa.array(folders, pa.string()).take(known.indices)
    return pc.fill_null(found, DEFAULT_PARTITION)


def _escaped(value: str) -> str:
    return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", value)


def _key_text(column: pa.ChunkedArray) -> pa.Array:
    texts = _text(column)
    return pc.if_else(pc.equal(pc.fill_null(texts, NULL_KEY), ""), EMPTY_KEY, pc.fill_null(texts, NULL_KEY))


def _text(column: pa.ChunkedArray) -> pa.Array:
    """Values as Hudi writes them: times count microseconds, dates are ISO texts."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    combined = column.cast(pa.string()).combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
