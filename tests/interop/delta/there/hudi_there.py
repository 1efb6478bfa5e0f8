"""What hudi-rs does with a Hudi table: reads it."""

from __future__ import annotations

from typing import Any

import hudi
import pyarrow as pa


def _table(path: str, at: str | None, storage: dict[str, str]) -> tuple[Any, Any]:
    table = hudi.HudiTableBuilder.from_base_uri(path).with_storage_options(storage).build()
    options = hudi.HudiReadOptions()
    return table, options if at is None else options.with_as_of_timestamp(at)


def read(path: str, at: str | None = None, storage: dict[str, str] | None = None) -> pa.Table:
    """All rows, or those as of an instant; `storage` says how a bucket is reached."""
    table, options = _table(path, at, storage or {})
    try:
        batches = table.read(options)
    except BaseException as error:  # what panics there is no Exception here
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
    return pa.Table.from_batches(batches) if batches else pa.table({})


def version() -> str:
    """Its release."""
    return str(hudi.__version__)
