"""Encode and decode Delta actions as JSON. Unknown fields and actions are ignored, as the protocol asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gapless.errors import UnsupportedTable
from gapless.formats.delta.actions import (
    Action,
    AddFile,
    CdcFile,
    DeletionVector,
    DomainMetadata,
    Json,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
)
from gapless.formats.delta.schema.types import StructType, decode_schema, encode_schema

Body = Mapping[str, Json]

NAMES: Mapping[type, str] = {
    Protocol: "protocol",
    Metadata: "metaData",
    Txn: "txn",
    DomainMetadata: "domainMetadata",
    RemoveFile: "remove",
    AddFile: "add",
    CdcFile: "cdc",
}
"""Actions by their names in the log, in the order in which a commit of ours has them."""


def encode_action(action: Action) -> dict[str, Json]:
    """An action as `{name: body}`; what is not known is left out."""
    name = NAMES[type(action)]
    body = dict(_ENCODERS[name](action))
    return {name: {key: value for key, value in body.items() if value is not None}}


def decode_action(name: str, body: Body, path: str) -> Action | None:
    """The action of a name; None for one that is not known. `path` is the object that has it, for messages.

    Raises ValueError, KeyError, TypeError or AttributeError for a damaged one, CorruptTable or UnsupportedTable for a schema.
    """
    decode = _DECODERS.get(name)
    return None if decode is None else decode(body, path)


def decode_add(body: Body, _path: str = "") -> AddFile:
    """`add`."""
    return AddFile(
        path=_text(body["path"]),
        partition_values=_texts(body.get("partitionValues")) or {},
        size=_whole(body["size"]),
        modified_ms=_number(body.get("modificationTime")) or 0,
        data_change=body.get("dataChange", True) is not False,
        stats=_optional_text(body.get("stats")),
        tags=_texts(body.get("tags")),
        deletion_vector=decode_vector(body.get("deletionVector")),
        base_row_id=_number(body.get("baseRowId")),
        default_row_commit_version=_number(body.get("defaultRowCommitVersion")),
        clustering_provider=_optional_text(body.get("clusteringProvider")),
    )


def decode_remove(body: Body, _path: str = "") -> RemoveFile:
    """`remove`."""
    return RemoveFile(
        path=_text(body["path"]),
        deleted_ms=_number(body.get("deletionTimestamp")),
        data_change=body.get("dataChange", True) is not False,
        partition_values=_texts(body.get("partitionValues")),
        size=_number(body.get("size")),
        stats=_optional_text(body.get("stats")),
        tags=_texts(body.get("tags")),
        deletion_vector=decode_vector(body.get("deletionVector")),
        base_row_id=_number(body.get("baseRowId")),
        default_row_commit_version=_number(body.get("defaultRowCommitVersion")),
    )


def decode_vector(body: Body | None) -> DeletionVector | None:
    """A deletion vector's descriptor; None where a file has none."""
    if body is None:
        return None
    return DeletionVector(
        storage=_text(body["storageType"]),
        path_or_inline=_text(body["pathOrInlineDv"]),
        offset=_number(body.get("offset")),
        size=_whole(body["sizeInBytes"]),
        cardinality=_whole(body["cardinality"]),
    )


def decode_metadata(body: Body, path: str) -> Metadata:
    """`metaData`. Raises UnsupportedTable for data files that are no Parquet."""
    provider = (body.get("format") or {}).get("provider", "parquet")
    if provider != "parquet":
        raise UnsupportedTable(
            f"{path} says that the table's data files are {provider}",
            why="Delta's protocol has Parquet only, and so has this release",
            fix="Write the table anew as Parquet with the tool that made it",
            needs=str(provider),
        )
    text = body.get("schemaString")
    return Metadata(
        id=_text(body.get("id") or ""),
        name=_optional_text(body.get("name")),
        description=_optional_text(body.get("description")),
        schema=StructType(fields=()) if not text else decode_schema(text, path),
        partition_by=tuple(map(_text, body.get("partitionColumns") or ())),
        configuration={key: text for key, text in (_texts(body.get("configuration")) or {}).items() if text is not None},
        created_ms=_number(body.get("createdTime")),
    )


def decode_protocol(body: Body, _path: str = "") -> Protocol:
    """`protocol`."""
    return Protocol(
        reader=_whole(body["minReaderVersion"]),
        writer=_whole(body["minWriterVersion"]),
        reader_features=frozenset(map(_text, body.get("readerFeatures") or ())),
        writer_features=frozenset(map(_text, body.get("writerFeatures") or ())),
    )


def _decode_txn(body: Body, _path: str) -> Txn:
    version = body["version"]
    if not isinstance(version, int) or isinstance(version, bool):
        raise TypeError(f"{version!r} is no transaction version")
    return Txn(app_id=_text(body["appId"]), version=version, updated_ms=_number(body.get("lastUpdated")))


def _decode_domain(body: Body, _path: str) -> DomainMetadata:
    return DomainMetadata(
        domain=_text(body["domain"]),
        configuration=_text(body.get("configuration") or ""),
        removed=body.get("removed") is True,
    )


def _decode_cdc(body: Body, _path: str) -> CdcFile:
    values, size = _texts(body.get("partitionValues")) or {}, _whole(body["size"])
    return CdcFile(path=_text(body["path"]), partition_values=values, size=size, tags=_texts(body.get("tags")))


_DECODERS: Mapping[str, Callable[[Body, str], Action]] = {
    "add": decode_add,
    "remove": decode_remove,
    "cdc": _decode_cdc,
    "metaData": decode_metadata,
    "protocol": decode_protocol,
    "txn": _decode_txn,
    "domainMetadata": _decode_domain,
}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _texts(value: Json) -> dict[str, Any] | None:
    """A map of texts; numbers and truth values, which some writers leave bare, as the texts that they are in JSON."""
    if value is None:
        return None
    return {name: one if one is None or isinstance(one, str) else json.dumps(one) for name, one in value.items()}


def _number(value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63):
        return value
    raise TypeError(f"{value!r} is no whole number")


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


Pairs = Iterator[tuple[str, Json]]


def encode_vector(vector: DeletionVector) -> dict[str, Json]:
    """A deletion vector's descriptor."""
    body: dict[str, Json] = {"storageType": vector.storage, "pathOrInlineDv": vector.path_or_inline}
    if vector.offset is not None:
        body["offset"] = vector.offset
    return body | {"sizeInBytes": vector.size, "cardinality": vector.cardinality}


def _encode_add(file: AddFile) -> Pairs:
    yield "path", file.path
    yield "partitionValues", dict(file.partition_values)
    yield "size", file.size
    yield "modificationTime", file.modified_ms
    yield "dataChange", file.data_change
    yield from _encode_known(file)
    yield "clusteringProvider", file.clustering_provider


def _encode_remove(file: RemoveFile) -> Pairs:
    yield "path", file.path
    yield "deletionTimestamp", file.deleted_ms
    yield "dataChange", file.data_change
    if file.partition_values is not None and file.size is not None:
        yield "extendedFileMetadata", True
    yield "partitionValues", None if file.partition_values is None else dict(file.partition_values)
    yield "size", file.size
    yield from _encode_known(file)


def _encode_known(file: AddFile | RemoveFile) -> Pairs:
    """What an add says of a file, and its remove says again."""
    yield "stats", file.stats
    yield "tags", None if file.tags is None else dict(file.tags)
    yield "deletionVector", None if file.deletion_vector is None else encode_vector(file.deletion_vector)
    yield "baseRowId", file.base_row_id
    yield "defaultRowCommitVersion", file.default_row_commit_version


def _encode_metadata(metadata: Metadata) -> Pairs:
    yield "id", metadata.id
    yield "name", metadata.name
    yield "description", metadata.description
    yield "format", {"provider": "parquet", "options": {}}
    yield "schemaString", encode_schema(metadata.schema)
    yield "partitionColumns", list(metadata.partition_by)
    yield "configuration", dict(metadata.configuration)
    yield "createdTime", metadata.created_ms


def _encode_protocol(protocol: Protocol) -> Pairs:
    yield "minReaderVersion", protocol.reader
    yield "minWriterVersion", protocol.writer
    yield "readerFeatures", sorted(protocol.reader_features) if protocol.reader >= 3 else None
    yield "writerFeatures", sorted(protocol.writer_features) if protocol.writer >= 7 else None


def _encode_txn(txn: Txn) -> Pairs:
    yield "appId", txn.app_id
    yield "version", txn.version
    yield "lastUpdated", txn.updated_ms


def _encode_domain(domain: DomainMetadata) -> Pairs:
    yield "domain", domain.domain
    yield "configuration", domain.configuration
    yield "removed", domain.removed


def _encode_cdc(file: CdcFile) -> Pairs:
    yield "path", file.path
    yield "partitionValues", dict(file.partition_values)
    yield "size", file.size
    yield "dataChange", False
    yield "tags", None if file.tags is None else dict(file.tags)


_ENCODERS: Mapping[str, Callable[[Any], Pairs]] = {
    "protocol": _encode_protocol,
    "metaData": _encode_metadata,
    "txn": _encode_txn,
    "domainMetadata": _encode_domain,
    "remove": _encode_remove,
    "add": _encode_add,
    "cdc": _encode_cdc,
}
