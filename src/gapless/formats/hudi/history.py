"""The archived timeline of tables of version 8 and later: Parquet files of instants, and manifests that name them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.errors import CorruptTable
from gapless.formats.hudi.instants import HISTORY_FOLDER, CompletedInstant

VERSION_FILE = f"{HISTORY_FOLDER}/_version_"
"""Holds the number of the newest manifest."""
_TEXT = {"type": "string", "avro.java.string": "String"}
_AVRO = {
    "type": "record",
    "name": "HoodieLSMTimelineInstant",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        *({"name": name, "type": ["null", _TEXT], "default": None} for name in ("instantTime", "completionTime", "action")),
        *({"name": name, "type": ["null", "bytes"], "default": None} for name in ("metadata", "plan")),
        {"name": "version", "type": "int", "default": 1},
    ],
}
_SCHEMA = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ],
    metadata={"writer.model.name": "avro", "parquet.avro.schema": json.dumps(_AVRO, separators=(",", ":"))},
)


@dataclass(frozen=True, slots=True, order=True)
class HistoryFile:
    """A file of archived instants, as a manifest names it."""

    name: str
    size: int

    @property
    def path(self) -> str:
        """Below the base path."""
        return f"{HISTORY_FOLDER}/{self.name}"


def manifest_path(number: int) -> str:
    """Where a manifest lies."""
    return f"{HISTORY_FOLDER}/manifest_{number}"


def decode_manifest(data: bytes, path: str) -> list[HistoryFile]:
    """The files that a manifest names, oldest first. Raises CorruptTable."""
    try:
        return sorted(HistoryFile(one["fileName"], one["fileLen"]) for one in json.loads(data)["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTable(
            f"{path} names no archived instants that can be read",
            why=f"{type(error).__name__}: {error}",
            fix="Bring it back from a copy of the table",
            path=path,
        ) from error


def encode_manifest(files: Iterable[HistoryFile]) -> bytes:
    """A manifest of these files."""
    return json.dumps({"files": [{"fileName": one.name, "fileLen": one.size} for one in files]}, indent=2).encode()


def encode_instants(instants: Sequence[tuple[CompletedInstant, bytes]]) -> tuple[HistoryFile, bytes]:
    """A file of these instants, each with what its own file held; in order of their requested times, of which there is one at least."""
    ordered = sorted(instants)
    columns = {
        "instantTime": [one.requested for one, _ in ordered],
        "completionTime": [one.completed for one, _ in ordered],
        "action": [one.action for one, _ in ordered],
        "metadata": [data for _, data in ordered],
        "plan": [None for _ in ordered],
        "version": [1 for _ in ordered],
    }
    onto = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=_SCHEMA), onto, store_schema=False, compression="gzip")
    data = onto.getvalue().to_pybytes()
    name = f"{ordered[0][0].requested}_{ordered[-1][0].requested}_0.parquet"
    return HistoryFile(name, len(data)), data


def decode_instants(data: bytes, path: str) -> list[tuple[CompletedInstant, bytes]]:
    """The instants of a file, with what their own files held, oldest first. Raises CorruptTable."""
    try:
        rows = pq.read_table(pa.BufferReader(data), columns=["instantTime", "completionTime", "action", "metadata"])
        return sorted(
            (CompletedInstant(row["instantTime"], row["completionTime"] or row["instantTime"], row["action"]), row["metadata"])
            for row in rows.to_pylist()
        )
    except (pa.ArrowException, KeyError, TypeError, OSError) as error:
        raise CorruptTable(
            f"{path} holds no archived instants that can be read",
            why=f"{type(error).__name__}: {error}",
            fix="Bring it back from a copy of the table",
            path=path,
        ) from error
