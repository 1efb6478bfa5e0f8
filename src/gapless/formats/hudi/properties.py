"""`hoodie.properties`: what a Hudi table is."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

TABLE_VERSION = 6
"""The newest whose commits are JSON, each one object that is put once."""

METADATA_PARTITIONS = "hoodie.table.metadata.partitions"
"""Which parts of the metadata table readers may trust in place of a listing."""


def table_properties(name: str) -> dict[str, str]:
    """Those of a copy-on-write table without meta columns, keys and partitions, which is called `name`."""
    return {
        "hoodie.table.name": name,
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": str(TABLE_VERSION),
        "hoodie.timeline.layout.version": "1",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.populate.meta.fields": "false",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.archivelog.folder": "archived",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.table.checksum": str(zlib.crc32(f".{name}".encode())),
    }


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """A file of Java properties."""
    return "".join(f"{key}={value}\n" for key, value in sorted(properties.items())).encode("ascii")


def decode_properties(data: bytes) -> dict[str, str]:
    """The properties of a file; comments are left out."""
    lines = (line.strip() for line in data.decode("latin-1").splitlines())
    pairs = (line.partition("=") for line in lines if line and line[0] not in "#!")
    return {key.strip(): value.strip().replace("\\:", ":").replace("\\=", "=") for key, _, value in pairs}


def foreign_changes(found: Mapping[str, str]) -> list[str]:
    """What another writer changed so that our next commit would not be seen, a clause each."""
    told = []
    version = found.get("hoodie.table.version")
    if version != str(TABLE_VERSION):
        told.append(f"it has table version {version}, and had {TABLE_VERSION}")
    if partitions := found.get(METADATA_PARTITIONS):
        told.append(f"it has a metadata table ({partitions}), which lacks our commits")
    return told
