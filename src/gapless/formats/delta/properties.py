"""Delta table properties: which this release knows, their defaults and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from gapless.errors import InvalidOption, NotSupported, UnsupportedTable, nearest
from gapless.formats.delta.property_values import (
    interval_text,
    parse_choice,
    parse_columns,
    parse_count,
    parse_flag,
    parse_interval,
    parse_size,
    parse_text,
)
from gapless.formats.delta.publishing import PUBLISH, check_published_name, is_published_name, parse_published
from gapless.formats.delta.variant.declared import SHREDDING, parse_shredding
from gapless.formats.delta.variant.shred import Shape

CONSTRAINT = "delta.constraints."
"""Before the name of a CHECK constraint, in lower case."""
FEATURE = "delta.feature."
"""Before a feature's name, with the value `supported`: a wish for the protocol, never stored."""
MIN_READER, MIN_WRITER = "delta.minReaderVersion", "delta.minWriterVersion"
"""Wishes for the protocol, never stored."""

_CODECS = ("uncompressed", "none", "snappy", "gzip", "lz4", "lz4_raw", "zstd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A table's properties as values; each says its default."""

    append_only: bool = False
    isolation: str = "WriteSerializable"

    checkpoint_interval: int = 100
    """Commits from one log checkpoint to the next."""
    checkpoint_policy: str = "classic"
    stats_as_json: bool = True
    """Whether checkpoints hold statistics as JSON text."""
    stats_as_struct: bool = False
    """Whether checkpoints hold statistics as columns too (`stats_parsed`)."""
    change_data_feed: bool = False
    deletion_vectors: bool = False
    """Whether row changes may write deletion vectors."""
    in_commit_timestamps: bool = False
    in_commit_timestamps_since: int | None = None
    """The version they were enabled in; None for the table's first, or where they are off."""
    in_commit_timestamps_since_ms: int | None = None
    column_mapping: str = "none"
    max_column_id: int = 0
    type_widening: bool = False
    row_tracking: bool = False
    variant_shredding: bool = False
    """Whether data files may hold parts of variants in columns of their own."""
    shredded: tuple[tuple[str, Shape], ...] = ()
    """The columns whose variants are, and how."""
    log_retention: timedelta = timedelta(days=30)
    deleted_file_retention: timedelta = timedelta(weeks=1)
    txn_retention: timedelta | None = None
    """How long `txn`s are remembered; None for ever."""
    enable_expired_log_cleanup: bool = True
    protected_before: int = 0
    """Log checkpoints of earlier versions stay until all of these versions are cleaned up at once (`checkpointProtection`)."""
    indexed_columns: int = 32
    """Of how many columns, leaves in order, statistics are taken; -1 for all."""
    stats_columns: tuple[tuple[str, ...], ...] | None = None
    """Of which columns, by logical path, instead of the first `indexed_columns`."""
    stats_text_length: int = 32
    """Characters that texts in statistics are cut to."""
    target_file_size: int | None = None
    """Bytes of the files that compaction makes."""
    codec: str = "zstd"
    """Compression of new data files."""
    row_group_rows: int | None = None
    """Rows of a row group of new data files, at most; None for as many as a scan reads well."""

    @classmethod
    def of(cls, configuration: Mapping[str, str]) -> Settings:
        """The settings that a table's properties make; raises UnsupportedTable for a value that has no meaning."""
        known = {name: _parsed(name, text) for name, text in configuration.items() if name in _SETTINGS}
        shredded = tuple(
            (name.removeprefix(SHREDDING), _parsed(name, text))
            for name, text in sorted(configuration.items())
            if name.startswith(SHREDDING)
        )
        return cls(**{_SETTINGS[name][0]: value for name, value in known.items()}, shredded=shredded)


_SETTINGS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "delta.appendOnly": ("append_only", parse_flag),
    "delta.isolationLevel": ("isolation", parse_choice("WriteSerializable", "Serializable", "SnapshotIsolation")),
    "delta.checkpointInterval": ("checkpoint_interval", parse_count(1)),
    "delta.checkpointPolicy": ("checkpoint_policy", parse_choice("classic", "v2")),
    "delta.checkpoint.writeStatsAsJson": ("stats_as_json", parse_flag),
    "delta.checkpoint.writeStatsAsStruct": ("stats_as_struct", parse_flag),
    "delta.enableChangeDataFeed": ("change_data_feed", parse_flag),
    "delta.enableDeletionVectors": ("deletion_vectors", parse_flag),
    "delta.enableInCommitTimestamps": ("in_commit_timestamps", parse_flag),
    "delta.inCommitTimestampEnablementVersion": ("in_commit_timestamps_since", parse_count(0)),
    "delta.inCommitTimestampEnablementTimestamp": ("in_commit_timestamps_since_ms", parse_count(0)),
    "delta.columnMapping.mode": ("column_mapping", parse_choice("none", "name", "id")),
    "delta.columnMapping.maxColumnId": ("max_column_id", parse_count(0)),
    "delta.enableTypeWidening": ("type_widening", parse_flag),
    "delta.enableRowTracking": ("row_tracking", parse_flag),
    "delta.enableVariantShredding": ("variant_shredding", parse_flag),
    "delta.logRetentionDuration": ("log_retention", parse_interval),
    "delta.deletedFileRetentionDuration": ("deleted_file_retention", parse_interval),
    "delta.setTransactionRetentionDuration": ("txn_retention", parse_interval),
    "delta.enableExpiredLogCleanup": ("enable_expired_log_cleanup", parse_flag),
    "delta.requireCheckpointProtectionBeforeVersion": ("protected_before", parse_count(0)),
    "delta.dataSkippingNumIndexedCols": ("indexed_columns", parse_count(-1)),
    "delta.dataSkippingStatsColumns": ("stats_columns", parse_columns),
    "delta.dataSkippingStringPrefixLength": ("stats_text_length", parse_count(0)),
    "delta.targetFileSize": ("target_file_size", parse_size),
    "delta.parquet.compression.codec": ("codec", parse_choice(*_CODECS)),
    "gapless.rowGroupRows": ("row_group_rows", parse_count(1)),
}


def _parsed(name: str, text: str) -> Any:
    try:
        return parse_shredding(text) if name.startswith(SHREDDING) else _SETTINGS[name][1](text)
    except ValueError as error:
        raise UnsupportedTable(
            f"the table's property {name} is {text!r}, which has no meaning here",
            why=f"It is {error}",
            fix="Set it right with the tool that set it, or use a newer gapless",
            needs=f"{name}={text}",
        ) from error


INTERNAL = frozenset(
    {
        "delta.columnMapping.maxColumnId",
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        "delta.rowTrackingSuspended",
        "delta.requireCheckpointProtectionBeforeVersion",
    }
)
"""Kept by writers themselves."""
_FOR_OTHERS: dict[str, Callable[[str], Any]] = {
    "delta.autoOptimize": parse_flag,
    "delta.autoOptimize.autoCompact": parse_text,
    "delta.autoOptimize.optimizeWrite": parse_flag,
    "delta.castIcebergTimeType": parse_flag,
    "delta.checkpointRetentionDuration": parse_interval,
    "delta.dropFeatureTruncateHistory.retentionDuration": parse_interval,
    "delta.enableFullRetentionRollback": parse_flag,
    "delta.ignoreIcebergBucketPartition": parse_flag,
    "delta.ignoreProtocolDefaults": parse_flag,
    "delta.parquet.format.version": parse_choice("1.0.0"),
    "delta.randomPrefixLength": parse_count(1),
    "delta.sampleRetentionDuration": parse_interval,
    "delta.tuneFileSizesForRewrites": parse_flag,
}
"""Hints that change nothing a reader may rely on; kept for the writers that heed them."""
_UNKEPT = frozenset(
    {
        "delta.compatibility.symlinkFormatManifest.enabled",
        "delta.enableIcebergCompatV1",
        "delta.enableIcebergCompatV2",
        "delta.enableIcebergCompatV3",
        "delta.enableMaterializePartitionColumnsFeature",
        "delta.enableRowTracking",
        "delta.randomizeFilePrefixes",
        "delta.universalFormat.iceberg.atomicConversion.supported",
        "delta.writePartitionColumnsToParquet",
    }
)
"""Flags that this release would not keep true while it writes: only `false` may be set."""
_REFUSED = ("delta.coordinatedCommits.", "delta.redirect", "delta.universalFormat.", "delta.identity.")
"""Beginnings of names of features that this release does not have."""

_KNOWN: dict[str, Callable[[str], Any]] = {
    **{name: parse for name, (_, parse) in _SETTINGS.items() if name not in INTERNAL},
    **_FOR_OTHERS,
    **dict.fromkeys(_UNKEPT, parse_flag),
    MIN_READER: parse_count(1),
    MIN_WRITER: parse_count(1),
}
_CANONICAL = {name.lower(): name for name in _KNOWN}


def parse_properties(given: Mapping[str, object], *, constraints: bool = False) -> dict[str, str]:
    """Properties as a user gives them, checked, as the texts the log has: flags, numbers and timedeltas may be Python's.

    Names of Delta's own may have any case. `constraints` allows `delta.constraints.*`, for a table that has no rows yet.
    `delta.feature.*` and `delta.min*Version` stay among them for `features.needed_protocol`; `stored` leaves them out.
    Raises InvalidOption for an unknown `delta.*` name or a wrong value, NotSupported for what this release cannot keep.
    """
    parsed: dict[str, str] = {}
    for name, value in given.items():
        known, text = _checked(name, value, constraints=constraints)
        # `publish` and UniForm's property say the same, each for the formats that it names.
        both = known == PUBLISH and known in parsed
        parsed[known] = parse_published(PUBLISH, f"{parsed[known]},{text}")[1] if both else text
    return parsed


def check_property_name(name: str) -> str:
    """The name as the log spells it; raises InvalidOption where it is unknown or not for users to set."""
    found = _CANONICAL.get(name.lower())
    if found is not None:
        return found
    if name.startswith(SHREDDING) and name != SHREDDING:
        return name
    if is_published_name(name):
        return check_published_name(name)
    if name.lower().startswith(FEATURE):
        return FEATURE + name[len(FEATURE) :]
    if not name.lower().startswith("delta."):
        return _own_name(name)
    if name in INTERNAL:
        raise InvalidOption(f"property {name!r} is set by writers alone", fix="Leave it out", option=name, value=None)
    if name.startswith(_REFUSED):
        raise NotSupported(
            f"property {name!r} belongs to a feature that gapless does not have", fix="Leave it out", feature=name
        )
    raise InvalidOption(f"property {name!r} is not known", fix=nearest(name, _KNOWN), option=name, value=None)


def stored(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties that metadata keeps: without wishes for the protocol."""
    return {
        name: text
        for name, text in configuration.items()
        if not name.startswith(FEATURE) and name not in (MIN_READER, MIN_WRITER, "delta.ignoreProtocolDefaults")
    }


def constraints_of(configuration: Mapping[str, str]) -> dict[str, str]:
    """The CHECK constraints among a table's properties: SQL expressions by name."""
    found = {name: text for name, text in configuration.items() if name.lower().startswith(CONSTRAINT)}
    return {name[len(CONSTRAINT) :]: text for name, text in found.items()}


def _own_name(name: str) -> str:
    meant = _CANONICAL.get(f"delta.{name}".lower())
    if not name or meant is not None:
        fix = f"Did you mean {meant!r}?" if meant else "Give it a name"
        raise InvalidOption(f"property {name!r} is not known", fix=fix, option=name, value=None)
    return name


def _checked(name: str, value: object, *, constraints: bool) -> tuple[str, str]:
    if is_published_name(name) and name.lower() not in _CANONICAL and not name.startswith(SHREDDING):
        return parse_published(name, value)
    text = _text(name, value)
    if name.lower().startswith(CONSTRAINT):
        return _constraint(name, text, allowed=constraints)
    known = check_property_name(name)
    if known.startswith(FEATURE) and text.lower() not in ("supported", "enabled"):
        raise _wrong(known, value, "not 'supported'")
    try:
        parsed = parse_shredding(text) if known.startswith(SHREDDING) else _KNOWN.get(known, parse_text)(text)
    except ValueError as error:
        raise _wrong(known, value, str(error)) from error
    if known in _UNKEPT and parsed:
        raise NotSupported(
            f"{known}=true is a promise that gapless would not keep while it writes",
            fix="Leave it out, or write the table with Spark",
            feature=known,
        )
    return known, str(parsed).lower() if isinstance(parsed, bool) else text


def _constraint(name: str, text: str, *, allowed: bool) -> tuple[str, str]:
    if allowed and len(name) > len(CONSTRAINT) and text.strip():
        return CONSTRAINT + name[len(CONSTRAINT) :].lower(), text
    raise InvalidOption(
        f"property {name!r} makes a constraint, which the table's rows have to be checked against",
        fix='Use t.alter.add_constraint("name", "expression")',
        option=name,
        value=text,
    )


def _text(name: str, value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case timedelta() if value >= timedelta(0):
            return interval_text(value)
    raise _wrong(name, value, "neither a text, a number nor a flag")


def _wrong(name: str, value: object, why: str) -> InvalidOption:
    return InvalidOption(
        f"property {name}={value!r} cannot be", why=f"It is {why}", fix="Pass a value of its kind", option=name, value=value
    )
