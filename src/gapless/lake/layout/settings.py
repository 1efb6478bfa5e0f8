"""What a lake table is, and its columns version by version: the lines of its `schema-history.jsonl`. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gapless.errors import CorruptTable, InvalidOption, nearest, one_of
from gapless.lake.drift import DriftPolicy, parse_stored_policy
from gapless.lake.layout.manifest import FORMAT, Manifest, check_format, damaged, load_sealed
from gapless.lake.layout.partitions import Partition, parse_partitions
from gapless.lake.layout.schema import LakeSchema
from gapless.tables.shared.prepared import sealed

TableKind = Literal["runs", "timeseries", "delta"]
TABLE_KINDS: tuple[TableKind, ...] = ("runs", "timeseries", "delta")
_OPTIONS: Mapping[TableKind, tuple[str, ...]] = {
    "runs": ("partition_by",),
    "timeseries": ("index", "bucket", "entity", "index_type", "timezone", "properties"),
    "delta": ("partition_by", "properties"),
}
_NEEDED: Mapping[TableKind, tuple[str, ...]] = {"runs": (), "timeseries": ("index", "bucket"), "delta": ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """What a table was made as."""

    name: str
    id: str
    """Names the table that was made: another one made in its place is not it."""
    kind: TableKind = "runs"
    key: tuple[str, ...] = ()
    """Columns of which the newest row of each value is the row; none for rows that only come."""
    drift: DriftPolicy = field(default_factory=DriftPolicy)
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the table of another kind is created with."""

    @classmethod
    def parse(cls, name: str, given: Mapping[str, Any], table_id: str) -> TableSettings:
        """Read what a caller gave: `kind`, `key`, `drift`, and the options of the kind. Raises InvalidOption."""
        options = dict(given)
        kind, key, drift = options.pop("kind"), options.pop("key"), options.pop("drift")
        known = one_of("kind", kind, TABLE_KINDS)
        names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Sequence) else (key,)
        if not all(isinstance(one, str) and one for one in names) or len(set(names)) < len(names):
            raise InvalidOption(f"key={key!r} names no columns", fix="Pass such as key=['id']", option="key", value=key)
        if names and known != "runs":
            raise InvalidOption(
                f"a table of kind {known!r} takes no key=",
                why="Its own log says which rows are one",
                fix="Leave it out, or take kind='runs'",
                option="key",
                value=key,
            )
        for option, value in options.items():
            if option not in _OPTIONS[known]:
                raise InvalidOption(
                    f"{option}= is no option of a lake table of kind {known!r}",
                    fix=nearest(option, _OPTIONS[known]),
                    option=option,
                    value=value,
                )
        for option in _NEEDED[known]:
            if option not in options:
                raise InvalidOption(
                    f"a lake table of kind {known!r} needs {option}=",
                    fix="Pass it as gl.create takes it",
                    option=option,
                    value=None,
                )
        if known == "runs" and "partition_by" in options:
            options["partition_by"] = [one.text for one in parse_partitions(options["partition_by"])]
        return cls(
            name=name, id=table_id, kind=known, key=tuple(map(str, names)), drift=DriftPolicy.parse(drift), options=options
        )

    @property
    def partition_by(self) -> tuple[Partition, ...]:
        """How files of snapshots are kept apart (kind "runs")."""
        return parse_partitions(self.options.get("partition_by", ()))

    @property
    def body(self) -> dict[str, Any]:
        """As JSON's values."""
        return {
            "table": self.name,
            "id": self.id,
            "kind": self.kind,
            "key": list(self.key),
            "drift": self.drift.body,
            "options": dict(self.options),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """All that was said of a table, oldest first."""

    settings: TableSettings
    schemas: tuple[LakeSchema, ...] = ()
    sides: tuple[LakeSchema, ...] = ()
    """Versions that another copy had beside these, until both were reconciled: files of them are there, and none is the newest."""
    meanings: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """By folder of a manifest: which version is meant by one that it names, where a reconciliation gave it another number."""

    @property
    def all_schemas(self) -> tuple[LakeSchema, ...]:
        """Every version that a file may have."""
        return tuple(sorted((*self.schemas, *self.sides), key=lambda one: one.version))

    def meant(self, part: str, version: int) -> int:
        """The version that the manifest in a folder means by a number."""
        return self.meanings.get(part, {}).get(version, version)

    def renumbered(self, manifest: Manifest) -> Manifest:
        """The manifest of a run with the versions that it means."""
        part = part_of(manifest.path)
        if part not in self.meanings:
            return manifest
        files, aside = (
            tuple(replace(one, schema_version=self.meant(part, one.schema_version)) for one in given)
            for given in (manifest.files, manifest.quarantined)
        )
        return replace(manifest, schema_version=self.meant(part, manifest.schema_version), files=files, quarantined=aside)

    @property
    def schema(self) -> LakeSchema:
        """The newest version of its columns."""
        return self.schemas[-1] if self.schemas else LakeSchema()

    def version(self, number: int) -> LakeSchema:
        """A version of its columns; raises CorruptTable where the history lacks it."""
        for one in self.all_schemas:
            if one.version == number:
                return one
        raise CorruptTable(
            f"version {number} of the columns of {self.settings.name!r} is in no history",
            why="A manifest names it, which is written only once it is there",
            fix="Bring the table's schema-history.jsonl back from a replica or a backup",
            path=history_path(self.settings.name),
        )

    @property
    def summary(self) -> bytes:
        """What `schema.json` holds: the settings and the newest columns."""
        return json.dumps({"format": FORMAT, **self.settings.body, "schema": self.schema.body}, indent=2).encode() + b"\n"


def history_path(table: str) -> str:
    """The lines that count."""
    return f"tables/{table}/schema-history.jsonl"


def summary_path(table: str) -> str:
    """A copy of the newest state, for people and other tools."""
    return f"tables/{table}/schema.json"


def settings_line(settings: TableSettings) -> bytes:
    """The line that says what a table is, from now on."""
    return _line({"settings": settings.body})


def schema_line(schema: LakeSchema) -> bytes:
    """The line of a new version of its columns."""
    return _line({"schema": schema.body})


def reconciled_line(schemas: Sequence[LakeSchema], meanings: Mapping[str, Mapping[int, int]]) -> bytes:
    """The line that takes in versions of another copy, and says which of them manifests mean."""
    told = {part: {str(raw): meant for raw, meant in one.items()} for part, one in meanings.items()}
    return _line({"reconciled": {"schemas": [one.body for one in schemas], "meanings": told}})


def part_of(path: str) -> str:
    """The folder of the manifest that an object of a table belongs to, below the table's `data`.

    >>> part_of("tables/t/data/runs/run-01ARYZ6S410000000000000000/main/part-00000.parquet")
    'runs/run-01ARYZ6S410000000000000000/main'
    """
    names = path.split("/")[3:]
    return "/".join(names[:3] if names[:1] == ["runs"] else names[:1])


def _line(body: Mapping[str, Any]) -> bytes:
    return sealed({"format": FORMAT, **body}).encode() + b"\n"


def read_history(data: bytes, table: str) -> TableHistory:
    """Read the lines. Raises CorruptTable, UnsupportedTable."""
    path = history_path(table)
    found: TableHistory | None = None
    for number, line in enumerate(data.splitlines(), 1):
        where = f"{path} line {number}"
        body = load_sealed(line, where)
        try:
            check_format(body, where)
            if "settings" in body:
                settings = _settings(body["settings"])
                found = TableHistory(settings=settings) if found is None else replace(found, settings=settings)
            elif "reconciled" in body and found is not None:
                found = _reconciled(found, body["reconciled"], where)
            elif found is not None:
                found = replace(found, schemas=(*found.schemas, LakeSchema.from_body(body["schema"], where)))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged(where, f"{type(error).__name__}: {error}") from error
    if found is None:
        raise damaged(path, "Its first line is to say what the table is")
    return found


def _reconciled(found: TableHistory, body: Mapping[str, Any], where: str) -> TableHistory:
    sides = tuple(LakeSchema.from_body(one, where) for one in body["schemas"])
    meanings = {str(part): {int(raw): int(meant) for raw, meant in one.items()} for part, one in body["meanings"].items()}
    return replace(found, sides=(*found.sides, *sides), meanings={**meanings, **found.meanings})


def _settings(body: Mapping[str, Any]) -> TableSettings:
    return TableSettings(
        name=str(body["table"]),
        id=str(body["id"]),
        kind=one_of("kind", body["kind"], TABLE_KINDS),
        key=tuple(map(str, body["key"])),
        drift=parse_stored_policy(body["drift"]),
        options=dict(body["options"]),
    )
