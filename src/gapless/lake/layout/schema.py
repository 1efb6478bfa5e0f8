"""A lake table's columns, version by version, and what a version says as JSON. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gapless.errors import CorruptTable
from gapless.formats.timeseries.codec.schema import decode_schema, encode_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSchema:
    """One version of a table's columns. A later one has all columns of an earlier one, each in a type that its values can be cast to."""

    version: int = 0
    """0 before the first columns are known; then it only grows."""
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """Declared types by column name; null where no value has told the type yet."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """The column of each field of the source."""
    changes: tuple[str, ...] = ()
    """What is new in this version, in words."""
    run: str | None = None
    """The run that brought it."""

    @property
    def fingerprint(self) -> str:
        """Names the columns and their types: a query written for others can be refused."""
        body = [[one.name, str(one.type)] for one in self.columns]
        return hashlib.sha256(json.dumps(body, ensure_ascii=False).encode()).hexdigest()[:16]

    @property
    def body(self) -> dict[str, Any]:
        """As JSON's values."""
        return {
            "version": self.version,
            "fingerprint": self.fingerprint,
            "columns": [{"name": one.name, "type": str(one.type)} for one in self.columns],
            "fields": dict(sorted(self.fields.items())),
            "changes": list(self.changes),
            "run": self.run,
            "arrow": encode_schema(self.columns),
        }

    @classmethod
    def from_body(cls, body: Any, path: str) -> LakeSchema:
        """Read it back. Raises CorruptTable, UnsupportedTable."""
        try:
            return cls(
                version=int(body["version"]),
                columns=decode_schema(body["arrow"], path),
                fields={str(name): str(column) for name, column in body["fields"].items()},
                changes=tuple(map(str, body["changes"])),
                run=body["run"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptTable(
                f"{path} holds no version of a lake table's columns",
                why=f"{type(error).__name__}: {error}",
                fix="Bring the file back from a backup or a replica",
                path=path,
            ) from error
