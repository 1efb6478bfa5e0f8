"""Protocol versions and table features: what this release reads and writes, and what a table needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gapless.errors import InvalidOption, NotSupported, UnsupportedTable, nearest
from gapless.formats.delta.actions import Metadata, Protocol
from gapless.formats.delta.properties import CONSTRAINT, FEATURE, MIN_READER, MIN_WRITER, Settings, stored
from gapless.formats.delta.schema.changes import TYPE_CHANGES, may_widen
from gapless.formats.delta.schema.types import (
    ArrayType,
    DeltaType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    decode_type,
    every_field,
)

READER_VERSION, WRITER_VERSION = 3, 7
"""The highest that the protocol has, and that this release knows; both list their features."""

READER_FEATURES = frozenset(
    {
        "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint",
        "vacuumProtocolCheck", "variantShredding", "variantShredding-preview", "variantType", "variantType-preview",
    }
)  # fmt: skip
"""What readers have to know, and this release does."""
WRITER_FEATURES = READER_FEATURES | {
    "allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints", "checkpointProtection", "clustering", "domainMetadata", "generatedColumns",
    "identityColumns", "inCommitTimestamp", "inCommitTimestamp-preview", "invariants", "rowTracking",
}  # fmt: skip
"""What this release keeps right whenever it writes."""
_UNLESS_USED = frozenset({"icebergCompatV1", "icebergCompatV2", "icebergCompatV3"})
"""What it keeps right as long as no property or column of the table makes use of it."""
_FOREIGN = frozenset(
    {
        "adaptiveMetadata-preview", "catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview",
        "geospatial", "materializePartitionColumns", "redirectReaderWriter-preview", "redirectWriterOnly-preview",
    }
)  # fmt: skip
"""Known by name alone."""

_WRITER_LEVELS = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
_PREVIEW = "-preview"
_NEEDS = {"clustering": ("domainMetadata",), "rowTracking": ("domainMetadata",)}


def supported_features(protocol: Protocol) -> frozenset[str]:
    """Every feature a protocol supports, by list or by its versions."""
    if protocol.writer >= WRITER_VERSION:
        mapped = {"columnMapping"} if protocol.reader == 2 else set()
        return protocol.writer_features | protocol.reader_features | mapped
    return _implied(protocol.writer)


def supports(protocol: Protocol, feature: str) -> bool:
    """Whether a protocol supports a feature, under its name or its preview's."""
    known = supported_features(protocol)
    return feature in known or feature + _PREVIEW in known


def check_readable(protocol: Protocol, url: str, metadata: Metadata | None = None) -> None:
    """Raise UnsupportedTable, naming the version or feature, where this release cannot read the table.

    With `metadata`, also where a column went through a change of type that the protocol does not have.
    """
    if protocol.reader > READER_VERSION:
        raise _refused(url, "read", f"reader version {protocol.reader}")
    if protocol.reader == READER_VERSION:
        _check_known(protocol.reader_features - READER_FEATURES, url, "read")
    for field in every_field(metadata.schema) if metadata is not None and supports(protocol, "typeWidening") else ():
        _check_type_changes(field, url)


def check_writable(protocol: Protocol, url: str, metadata: Metadata | None = None) -> None:
    """Raise UnsupportedTable, naming the version or feature, where this release may not write the table.

    With `metadata`, features that are supported but not in use there, such as icebergCompatV2, do not count.
    """
    check_readable(protocol, url, metadata)
    if protocol.writer > WRITER_VERSION:
        raise _refused(url, "written", f"writer version {protocol.writer}")
    unknown = supported_features(protocol) - WRITER_FEATURES
    _check_known(unknown - _UNLESS_USED, url, "written")
    used = unknown if metadata is None else unknown & _used(metadata)
    _check_known(used, url, "written")


def needed_features(schema: StructType, configuration: Mapping[str, str]) -> frozenset[str]:
    """The features that a schema and properties make use of, and those that `delta.feature.*` requests.

    Raises NotSupported for a requested feature that this release does not keep, InvalidOption for an unknown one.
    """
    requested = {_supported(name.removeprefix(FEATURE)) for name in configuration if name.startswith(FEATURE)}
    requested |= {other for name in requested for other in _NEEDS.get(name, ())}
    return frozenset(
        requested | _by_properties(configuration) | {name for field in every_field(schema) for name in _by_field(field)}
    )


def needed_protocol(schema: StructType, configuration: Mapping[str, str]) -> Protocol:
    """The lowest protocol that a new table of this schema and these properties needs.

    `delta.feature.*`, `delta.minReaderVersion` and `delta.minWriterVersion` are more such requests. Raises NotSupported and
    InvalidOption as `needed_features` does, and InvalidOption for versions that the protocol does not have.
    """
    reader = _requested_version(configuration, MIN_READER, 1, READER_VERSION)
    writer = max(_requested_version(configuration, MIN_WRITER, 2, WRITER_VERSION), {1: 1, 2: 5, 3: 7}[reader])
    return raised(_at_least(reader, writer), *needed_features(schema, configuration))


def raised(protocol: Protocol, *features: str) -> Protocol:
    """The protocol with these features supported too; the same where it supports them already.

    Versions without lists of features are used where one stands for exactly what is supported then.
    """
    missing = {name for name in features if not supports(protocol, name)}
    if not missing:
        return protocol
    wanted = supported_features(protocol) | missing
    for level in range(max(protocol.writer, 2), WRITER_VERSION):
        if _implied(level) == wanted:
            return Protocol(reader=2 if "columnMapping" in wanted else 1, writer=level)
    return _listed(protocol.reader, wanted)


def _implied(level: int) -> frozenset[str]:
    return frozenset(name for known, names in _WRITER_LEVELS.items() if known <= level for name in names)


def _listed(reader: int, wanted: frozenset[str]) -> Protocol:
    for_readers = frozenset(name for name in wanted if name in READER_FEATURES)
    reader = READER_VERSION if for_readers else reader
    return Protocol(
        reader=reader,
        writer=WRITER_VERSION,
        reader_features=for_readers if reader == READER_VERSION else frozenset(),
        writer_features=wanted,
    )


def _at_least(reader: int, writer: int) -> Protocol:
    if writer < WRITER_VERSION:
        return Protocol(reader=reader, writer=writer)
    mapped = frozenset({"columnMapping"} if reader == 2 else ())
    return _listed(reader, _implied(2) | mapped)


def _requested_version(configuration: Mapping[str, str], name: str, minimum: int, most: int) -> int:
    text = configuration.get(name, str(minimum))
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise InvalidOption(
            f"property {name}={text!r} is no version of the protocol", fix=f"Pass one from 1 to {most}", option=name, value=text
        )
    return max(int(text), minimum)


def _supported(name: str) -> str:
    if name in WRITER_FEATURES:
        return name
    if name in _UNLESS_USED | _FOREIGN:
        raise NotSupported(
            f"the table feature {name!r} is none that gapless keeps right while it writes", fix="Leave it out", feature=name
        )
    raise InvalidOption(
        f"the table feature {name!r} is not known", fix=nearest(name, WRITER_FEATURES), option=FEATURE + name, value="supported"
    )


def _by_properties(configuration: Mapping[str, str]) -> set[str]:
    settings = Settings.of(stored(configuration))
    used = {
        "appendOnly": settings.append_only,
        "changeDataFeed": settings.change_data_feed,
        "checkConstraints": any(name.lower().startswith(CONSTRAINT) for name in configuration),
        "columnMapping": settings.column_mapping != "none",
        "deletionVectors": settings.deletion_vectors,
        "inCommitTimestamp": settings.in_commit_timestamps,
        "typeWidening": settings.type_widening,
        "variantShredding": settings.variant_shredding,
        "v2Checkpoint": settings.checkpoint_policy == "v2",
    }
    return {name for name, on in used.items() if on}


def _by_field(field: StructField) -> Iterator[str]:
    keys = {
        "delta.invariants": "invariants",
        "delta.generationExpression": "generatedColumns",
        "CURRENT_DEFAULT": "allowColumnDefaults",
        TYPE_CHANGES: "typeWidening",
    }
    yield from (feature for key, feature in keys.items() if key in field.metadata)
    types = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
    yield from (types[leaf.name] for leaf in _leaves(field.type) if leaf.name in types)


def _leaves(type_: DeltaType) -> Iterator[PrimitiveType]:
    """The primitive types of a field, without those of the fields nested in it."""
    match type_:
        case PrimitiveType():
            yield type_
        case ArrayType():
            yield from _leaves(type_.element)
        case MapType():
            yield from _leaves(type_.key)
            yield from _leaves(type_.value)


def _used(metadata: Metadata) -> frozenset[str]:
    flags = {name.lower(): text.lower() == "true" for name, text in metadata.configuration.items()}
    used = {f"icebergCompatV{number}": flags.get(f"delta.enableicebergcompatv{number}", False) for number in (1, 2, 3)}
    return frozenset(name for name, on in used.items() if on)


def _check_type_changes(field: StructField, url: str) -> None:
    for change in field.metadata.get(TYPE_CHANGES) or ():
        before, after = (change.get(side) for side in ("fromType", "toType")) if isinstance(change, dict) else (None, None)
        if not (before and after and may_widen(decode_type(before, url, field.name), decode_type(after, url, field.name))):
            what = f"the change of column {field.name!r} from type {before} to {after}"
            raise _refused(url, "read", what, f"{before} to {after}")


def _check_known(unknown: frozenset[str], url: str, act: str) -> None:
    if unknown:
        raise _refused(url, act, f"the feature {min(unknown)!r}", min(unknown))


def _refused(url: str, act: str, what: str, needs: str = "") -> UnsupportedTable:
    return UnsupportedTable(
        f"{url} cannot be {act} by this release of gapless: the table needs {what}",
        why="Its protocol says so, and whoever does not know it would get it wrong",
        fix="Use a newer gapless, or the tool that wrote the table",
        needs=needs or what,
    )
