"""Which partitions of which tables a partial replica is to have. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gapless.errors import InvalidOption
from gapless.lake.layout.head import Head
from gapless.lake.layout.partitions import check_partition_names, is_within
from gapless.lake.sync.plan import Wanted

Tables = Sequence[str] | Mapping[str, Sequence[str] | None]
"""Names of tables; or by name the partitions that are wanted, None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """What a pull into a replica wants of each table."""

    ours: Head | None
    snapshots: Mapping[str, str]
    """Tables of which one snapshot is wanted."""
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tables of which some partitions are."""

    def of(self, table: str) -> Wanted:
        """What is wanted of one."""
        here = None if self.ours is None else self.ours.partitions.get(table)
        return Wanted(
            snapshot=self.snapshots.get(table),
            partitions=self.partitions.get(table),
            here=None if here is None else tuple(here),
        )


def table_names_of(tables: Tables | None) -> list[str] | None:
    """The names. Raises InvalidOption."""
    if isinstance(tables, str):
        raise InvalidOption(f"tables={tables!r} is no list", fix=f"Pass [{tables!r}]", option="tables", value=tables)
    return None if tables is None else list(tables)


def partial_of(ours: Head | None, theirs: Head | None, tables: Tables | None, snapshots: Mapping[str, str] | None) -> Partial:
    """What is wanted: as before, unless tables are named now; and of a replica no more than it has. Raises InvalidOption."""
    asked = (
        {name: check_partition_names(name, one) for name, one in tables.items() if one is not None}
        if isinstance(tables, Mapping)
        else {}
    )
    whole = {name for name in tables or () if name not in asked}
    pinned = {} if ours is None else {name: one for name, one in ours.snapshots.items() if name not in whole}
    parts = {} if ours is None else {name: tuple(one) for name, one in ours.partitions.items() if name not in whole}
    for name, more in asked.items():
        if ours is not None and name in ours.tables and name not in ours.partitions:
            raise InvalidOption(
                f"{name!r} is here with all partitions",
                why="Nothing is removed",
                fix="Leave it out",
                option="tables",
                value=more,
            )
        parts[name] = tuple(sorted({*parts.get(name, ()), *more}))
    for name, there in ({} if theirs is None else theirs.partitions).items():
        parts[name] = parts.get(name) or tuple(there)
        if lacking := [one for one in parts[name] if not is_within(one, there)] or (name in whole and [name]):
            raise InvalidOption(
                f"{lacking[0]!r} is not where it is to be pulled from, which has of {name!r} only {', '.join(there)}",
                why="It is a partial replica itself",
                fix=f"Pull from {theirs.source if theirs is not None else 'the lake'}",
                option="tables",
                value=lacking[0],
            )
    return Partial(
        ours=ours,
        snapshots={**({} if theirs is None else theirs.snapshots), **pinned, **(snapshots or {})},
        partitions=parts,
    )
