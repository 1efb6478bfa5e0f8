"""What `hoodie.properties` says of a copy-on-write table that sinks write, and what of it is refused. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from gapless.errors import NotSupported, UnsupportedTable
from gapless.formats.hudi.properties import METADATA_PARTITIONS

VERSIONS = (8, 9)
"""Of tables whose commits are Avro, with the time of completion in their names."""
NEW_VERSION = 9
SCHEMA_PROPERTY = "hoodie.table.create.schema"
"""The Avro schema of a table that has no commit yet."""
_PREFIX = "hoodie.table."
_KEYS, _PARTITIONS, _ORDERING = f"{_PREFIX}recordkey.fields", f"{_PREFIX}partition.fields", f"{_PREFIX}ordering.fields"
_OLD_ORDERING = f"{_PREFIX}precombine.field"
_HIVE, _URLENCODE = "hoodie.datasource.write.hive_style_partitioning", "hoodie.datasource.write.partitionpath.urlencode"
_GENERATORS = ("SIMPLE", "COMPLEX", "NON_PARTITION", "SIMPLE_AVRO", "COMPLEX_AVRO", "NON_PARTITION_AVRO")
_CLASSES = {
    "SimpleKeyGenerator": "SIMPLE",
    "SimpleAvroKeyGenerator": "SIMPLE",
    "ComplexKeyGenerator": "COMPLEX",
    "ComplexAvroKeyGenerator": "COMPLEX",
    "NonpartitionedKeyGenerator": "NON_PARTITION",
    "NonpartitionedAvroKeyGenerator": "NON_PARTITION",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HudiTableConfig:
    """A table that sinks write."""

    name: str
    version: int
    record_key: tuple[str, ...] = ()
    """The columns that tell rows apart; none where Hudi numbers the rows."""
    partition_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    """Columns by which Hudi tells newer rows of a key from older ones."""
    hive_style: bool = True
    """Folders are called `column=value`, and not `value`."""
    url_encoded: bool = False
    """Characters that folders cannot have are escaped."""
    named_keys: bool = False
    """Record keys of one column are `column:value` too, as those of several."""
    metadata_partitions: str = ""
    """Parts of Hudi's metadata table that readers would ask in place of a listing."""
    first_schema: str = ""
    """The Avro schema that the table was made with, if it says so."""


def config_of(properties: Mapping[str, str], url: str) -> HudiTableConfig:
    """What a table's properties say. Raises NotSupported for a table of another kind than sinks write, UnsupportedTable for one of another
    version.
    """
    _check_kind(properties, url)
    version = properties.get(f"{_PREFIX}version", "0")
    if version not in map(str, VERSIONS):
        raise UnsupportedTable(
            f"the Hudi table at {url} has table version {version}",
            why=f"This release writes {' and '.join(map(str, VERSIONS))}: the commits of Hudi 1.0 and later",
            fix="Upgrade it by Hudi 1.2, whose next write does that, or by `call upgrade_table(table => '…', to_version => 'NINE')`",
            needs=f"table version {version}",
        )
    keys, partitions = _names(properties, _KEYS), _names(properties, _PARTITIONS)
    return HudiTableConfig(
        name=properties.get(f"{_PREFIX}name", ""),
        version=int(version),
        record_key=keys,
        partition_by=tuple(name.partition(":")[0] for name in partitions),
        order_by=_names(properties, _ORDERING) or _names(properties, _OLD_ORDERING),
        hive_style=_is_true(properties, _HIVE),
        url_encoded=_is_true(properties, _URLENCODE),
        named_keys=_generator(properties, url) == "COMPLEX"
        and not _is_true(properties, "hoodie.write.complex.keygen.new.encoding"),
        metadata_partitions=properties.get(METADATA_PARTITIONS, ""),
        first_schema=properties.get(SCHEMA_PROPERTY, ""),
    )


def new_properties(config: HudiTableConfig, schema: str) -> dict[str, str]:
    """The properties of a new table; `schema` is its Avro schema."""
    several = len(config.record_key) > 1 or len(config.partition_by) > 1
    kind = "NON_PARTITION" if not config.partition_by else "COMPLEX" if several else "SIMPLE"
    told = {
        f"{_PREFIX}name": config.name,
        f"{_PREFIX}type": "COPY_ON_WRITE",
        f"{_PREFIX}version": str(config.version),
        f"{_PREFIX}initial.version": str(config.version),
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        f"{_PREFIX}timeline.timezone": "UTC",
        f"{_PREFIX}base.file.format": "PARQUET",
        f"{_PREFIX}multiple.base.file.formats.enable": "false",
        f"{_PREFIX}format": "native",
        f"{_PREFIX}cdc.enabled": "false",
        "hoodie.populate.meta.fields": "true",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        _HIVE: str(config.hive_style).lower(),
        _URLENCODE: str(config.url_encoded).lower(),
        f"{_PREFIX}keygenerator.type": kind,
        _PARTITIONS: ",".join(config.partition_by),
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING" if config.order_by else "COMMIT_TIME_ORDERING",
        SCHEMA_PROPERTY: schema,
        f"{_PREFIX}checksum": str(zlib.crc32(f".{config.name}".encode())),
    }
    if config.record_key:
        told[_KEYS] = ",".join(config.record_key)
    if config.order_by:
        told[_ORDERING] = ",".join(config.order_by)
    return told


def _check_kind(properties: Mapping[str, str], url: str) -> None:
    found = {name.lower(): value.lower() for name, value in properties.items()}
    if found.get(f"{_PREFIX}type") != "copy_on_write":
        kind = properties.get(f"{_PREFIX}type", "none")
        raise NotSupported(
            f"the Hudi table at {url} is of type {kind}, into which sinks do not write",
            why="A merge-on-read table takes changes as log files; this release writes base files alone, into copy-on-write tables",
            fix="Write into a table of type COPY_ON_WRITE; a merge-on-read table can be a source",
            feature=f"Hudi tables of type {kind} as sinks",
        )
    for name, refused, what in _REFUSED:
        if found.get(name, "") in refused:
            raise NotSupported(
                f"the Hudi table at {url} has {name}={properties.get(name)!r}, into which sinks do not write",
                why=what,
                fix="Write into it by Hudi itself, or make another table",
                feature=f"Hudi tables with {name}={found[name]}",
            )
    _generator(properties, url)


_REFUSED = (
    ("hoodie.populate.meta.fields", ("false",), "Its rows lack the columns by which Hudi finds them and what changed"),
    ("hoodie.datasource.write.drop.partition.columns", ("true",), "Its files lack the partition columns"),
    (f"{_PREFIX}cdc.enabled", ("true",), "Its readers ask for change files, which this release does not write"),
    (f"{_PREFIX}multiple.base.file.formats.enable", ("true",), "Its files may be other than Parquet"),
    (f"{_PREFIX}base.file.format", ("orc", "hfile", "lance"), "Its files are other than Parquet"),
    ("hoodie.partition.metafile.use.base.format", ("true",), "Its folders are marked by files of another kind"),
)


def _generator(properties: Mapping[str, str], url: str) -> str:
    named = properties.get(f"{_PREFIX}keygenerator.class", "").rpartition(".")[2]
    kind = properties.get(f"{_PREFIX}keygenerator.type") or _CLASSES.get(named, named)
    if not kind:
        several = len(_names(properties, _KEYS)) > 1 or len(_names(properties, _PARTITIONS)) > 1
        kind = "COMPLEX" if several else "SIMPLE"
    if kind not in _GENERATORS:
        raise NotSupported(
            f"the Hudi table at {url} makes record keys and partition paths by {kind}",
            why=f"Rows that are written must have those that Hudi would give them, and this release knows {', '.join(_CLASSES)}",
            fix="Write into it by Hudi itself, or make another table",
            feature=f"Hudi tables with the key generator {kind}",
        )
    return kind.removesuffix("_AVRO")


def _names(properties: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in properties.get(name, "").split(",") if one.strip())


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "false").lower() == "true"
