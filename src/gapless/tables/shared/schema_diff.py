"""How the columns of two versions of a table differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDiff:
    """How columns differ, told apart by their identities and not by their names; nested fields count as part of their column."""

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: Mapping[str, str]
    """New names by the old ones."""
    retyped: Mapping[str, tuple[pa.DataType, pa.DataType]]
    """Type before and after, by the name after."""
    reordered: bool = False
    """Whether the columns that both have come in another order."""

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.added or self.dropped or self.renamed or self.retyped or self.reordered)

    def texts(self, columns: Collection[str] | None = None) -> list[str]:
        """What differs, one text a column, as far as it touches these columns; all where None."""
        lost = [f"{name!r} was dropped" for name in self.dropped if columns is None or name in columns]
        renamed = [f"{old!r} is {new!r} now" for old, new in self.renamed.items() if columns is None or {old, new} & {*columns}]
        retyped = [
            f"{name!r} was {old} and is {new}"
            for name, (old, new) in self.retyped.items()
            if columns is None or name in columns
        ]
        added = [f"{name!r} was added" for name in self.added if columns is None or name in columns]
        told = lost + renamed + retyped + added
        return told or (["they come in another order"] if self.reordered and columns is None else [])


def diff_columns(old: Mapping[str, pa.Field], new: Mapping[str, pa.Field]) -> SchemaDiff:
    """How two sets of columns differ, each in order by what tells a column apart."""
    common = [key for key in new if key in old]
    return SchemaDiff(
        added=tuple(field.name for key, field in new.items() if key not in old),
        dropped=tuple(field.name for key, field in old.items() if key not in new),
        renamed={old[key].name: new[key].name for key in common if old[key].name != new[key].name},
        retyped={new[key].name: (old[key].type, new[key].type) for key in common if old[key].type != new[key].type},
        reordered=common != [key for key in old if key in new],
    )
