"""What a Delta table is, without its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from gapless.dialects.delta.actions import DomainMetadata, Metadata, Protocol, TableState
from gapless.dialects.delta.arrow_types import to_arrow
from gapless.dialects.delta.features import (
    READER_FEATURES,
    READER_VERSION,
    WRITER_VERSION,
    needed_features,
    needed_protocol,
    raised,
    supported_features,
)
from gapless.dialects.delta.properties import MIN_READER, MIN_WRITER, Settings
from gapless.dialects.delta.schema import StructType
from gapless.errors import InvalidChange
from gapless.model.evolve import parse_path

Path = tuple[str, ...]
"""Logical names from the top down; `element`, `key` and `value` step into lists and maps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a table is, without its rows."""

    metadata: Metadata
    protocol: Protocol
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    """What features and users keep beside it, by name."""
    is_empty: bool = False
    """Whether it has no live file."""

    @classmethod
    def of(cls, state: TableState) -> Shape:
        """That of a version."""
        return cls(metadata=state.metadata, protocol=state.protocol, domains=state.domains, is_empty=not state.files)

    @property
    def schema(self) -> StructType:
        """Its columns."""
        return self.metadata.schema

    @property
    def settings(self) -> Settings:
        """Its properties as values."""
        return Settings.of(self.metadata.configuration)

    @property
    def is_mapped(self) -> bool:
        """Whether files know its columns by physical names."""
        return self.settings.column_mapping != "none"

    def path(self, name: object) -> Path:
        """The path of a column that a caller means; raises InvalidOption."""
        return parse_path(name, to_arrow(self.schema))

    def with_schema(self, schema: StructType) -> Shape:
        """The same with other columns, and the protocol that they need."""
        return self._with(replace(self.metadata, schema=schema))

    def with_properties(self, configuration: Mapping[str, str], wishes: Mapping[str, str] | None = None) -> Shape:
        """The same with other properties, and the protocol that they and the `wishes` for features need."""
        return self._with(replace(self.metadata, configuration=dict(configuration)), wishes or {})

    def _with(self, metadata: Metadata, wishes: Mapping[str, str] | None = None) -> Shape:
        wished = wishes or {}
        needed = needed_features(metadata.schema, {**metadata.configuration, **wished})
        protocol = self.protocol
        # Versions come first: what they stand for need not be listed then.
        if versions := {name: text for name, text in wished.items() if name in (MIN_READER, MIN_WRITER)}:
            protocol = _at_least(protocol, needed_protocol(StructType(fields=()), versions))
        return replace(self, metadata=metadata, protocol=raised(protocol, *sorted(needed)))


def _at_least(protocol: Protocol, wished: Protocol) -> Protocol:
    """The protocol in versions not below those that are wished for, with what these stand for."""
    protocol = raised(protocol, *sorted(supported_features(wished)))
    reader, writer = max(protocol.reader, wished.reader), max(protocol.writer, wished.writer)
    if (reader, writer) == (protocol.reader, protocol.writer):
        return protocol
    known = supported_features(protocol) if writer == WRITER_VERSION else frozenset[str]()
    for_readers = known & READER_FEATURES if reader == READER_VERSION else frozenset[str]()
    return Protocol(reader=reader, writer=writer, reader_features=for_readers, writer_features=known)


def refuse_change(path: Path, what: str, fix: str, why: str = "") -> NoReturn:
    """Raise InvalidChange for a column."""
    name = ".".join(path)
    raise InvalidChange(f"column {name!r} {what}", why=why, fix=fix, column=name)
