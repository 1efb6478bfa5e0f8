"""How a table is to be published in other formats: the properties that say so, alike for every kind of table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from gapless.errors import InvalidOption, NotSupported, nearest

PublishedFormat = Literal["delta", "iceberg", "hudi"]
PUBLISHED_FORMATS: tuple[PublishedFormat, ...] = get_args(PublishedFormat)


PartitionTransform = Literal["year", "month", "day", "hour", "identity"]
ICEBERG_VERSION = 2
"""Of the format, as its metadata say."""
TIME_TRANSFORMS: tuple[PartitionTransform, ...] = ("year", "month", "day", "hour")
_PARTITION = re.compile(r"(?:(\w+)\((.+)\)|([^()]+))")


@dataclass(frozen=True, slots=True)
class PartitionField:
    """What files are told apart by: a value that is made of a column's."""

    transform: PartitionTransform
    column: str
    """By its declared name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """In which formats a table is published, by whom and where."""

    formats: tuple[PublishedFormat, ...] = ()
    """In the order of `PUBLISHED_FORMATS`."""
    on_commit: bool = True
    """Whether whoever commits also publishes."""
    iceberg_catalog: str = ""
    """By the name that pyiceberg is configured for; empty for the table's own folder."""
    iceberg_table: str = ""
    """`namespace.name` there."""
    hudi_folder: str = "data"
    """The base path of the Hudi table, relative to the table root: the folder of the table's files, or one for copies of them."""
    iceberg_partition: tuple[PartitionField, ...] = ()
    """The partitions that Iceberg's readers are told, where a file lies in one."""

    def places(self) -> dict[str, tuple[str, ...]]:
        """The formats, and where to, if not beside the table's own log."""
        elsewhere = {"iceberg": (self.iceberg_catalog, self.iceberg_table)}
        return {name: elsewhere.get(name, ()) for name in self.formats}


def parse_publish(value: object, known: tuple[PublishedFormat, ...] = PUBLISHED_FORMATS) -> tuple[PublishedFormat, ...]:
    """Formats by name, one text or several, each once and in the order of `PUBLISHED_FORMATS`; raises InvalidOption for any but the `known`."""
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else (value,)
    for name in names:
        if name not in known:
            raise InvalidOption(
                f"publish has {name!r}, which is no format that a table can be published in",
                why="It is a list of names",
                fix=nearest(str(name), known),
                option="publish",
                value=value,
            )
    return tuple(one for one in known if one in names)


def parse_catalog(catalog: object, table: object) -> dict[str, str]:
    """A catalog of Iceberg and a table in it, both or neither; raises InvalidOption."""
    if not isinstance(catalog, str) or not isinstance(table, str) or bool(catalog) != bool(table):
        raise InvalidOption(
            f"iceberg_catalog={catalog!r} and iceberg_table={table!r} do not go together",
            why="A table is published to one table of one catalog, or to its own folder",
            fix='Set both, such as iceberg_catalog="prod" and iceberg_table="market.prices", or neither',
            option="iceberg_table",
            value=table,
        )
    if table and (len(table.split(".")) < 2 or not all(table.split("."))):
        raise InvalidOption(
            f"iceberg_table={table!r} is no table of a catalog",
            why="It is a namespace and a name with a dot between",
            fix='Pass it so, such as iceberg_table="market.prices"',
            option="iceberg_table",
            value=table,
        )
    return {"iceberg_catalog": catalog, "iceberg_table": table}


def parse_iceberg_version(value: object) -> int:
    """The version of Iceberg's format; raises NotSupported for one that the library does not write, InvalidOption for what is none."""
    if value == ICEBERG_VERSION and not isinstance(value, bool):
        return ICEBERG_VERSION
    if value in (1, 3) and not isinstance(value, bool):
        why = (
            "Readers need no older one"
            if value == 1
            else "pyiceberg 0.12 writes neither metadata, manifests nor manifest lists of it"
        )
        raise NotSupported(
            f"version {value} of Iceberg's format is not written",
            why=why,
            fix=f"Leave iceberg_version at {ICEBERG_VERSION}, which all readers know",
            feature=f"iceberg_version={value}",
        )
    raise InvalidOption(
        f"iceberg_version={value!r} is no version of Iceberg's format",
        fix=f"Pass {ICEBERG_VERSION}",
        option="iceberg_version",
        value=value,
    )


def parse_partition(value: object) -> tuple[PartitionField, ...]:
    """Partition fields such as `day(ts), symbol`: a time's year, month, day or hour, or a column itself; empty for none. Raises InvalidOption."""
    found = []
    for part in value.split(",") if isinstance(value, str) and value.strip() else ():
        match = _PARTITION.fullmatch(part.strip())
        transform, column = (match[1] or "identity", (match[2] or match[3]).strip()) if match else ("", "")
        if match is None or (match[1] and transform not in TIME_TRANSFORMS):
            raise _no_partition(value)
        found.append(PartitionField(transform, column))  # type: ignore[arg-type]
    if not isinstance(value, str) or len(set(found)) != len(found):
        raise _no_partition(value)
    return tuple(found)


def _no_partition(value: object) -> InvalidOption:
    return InvalidOption(
        f"iceberg_partition={value!r} names no partitions",
        why=f"It is a text of fields with commas between, each once: {', '.join(f'{one}(column)' for one in TIME_TRANSFORMS)}, or a column",
        fix='Pass such as iceberg_partition="day(ts)" or "day(ts), symbol"; "" for none',
        option="iceberg_partition",
        value=value,
    )
