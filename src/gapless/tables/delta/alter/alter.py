"""ALTER TABLE for Delta tables: columns, properties, constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from gapless.formats.delta.actions import TableState
from gapless.formats.delta.conflict import EVERYTHING, NOTHING, Reads
from gapless.formats.delta.properties import parse_properties
from gapless.formats.delta.publishing import PUBLISH
from gapless.formats.delta.schema.arrow_types import from_arrow, to_arrow
from gapless.formats.delta.schema.types import StructField, encode_type
from gapless.model.evolve import parse_type
from gapless.tables.delta.alter import plan
from gapless.tables.delta.alter.commit import Change, MetadataCommitter, TableDefinition
from gapless.tables.delta.alter.plan import spark_sql
from gapless.tables.delta.expressions.evaluate import evaluate
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.delta.write.commits import check_text

ColumnName = str | Sequence[str]
"""A column's name, a dotted path to a field nested in it ("address.city"), or the path as a tuple where names hold dots."""


class Altering(DeltaHandle):
    """The way to the changes of a table that leave its files as they are."""

    @property
    def alter(self) -> Alter:
        """Changes of columns, properties and constraints; each is one commit."""
        return Alter(MetadataCommitter(context=self._context, check=self._check_writable))


class Alter:
    """Changes of a Delta table's columns, properties and constraints: each is one commit and writes no data file.

    Nested fields go by dotted paths: through a struct by its field's name, through a list by "element", through a map by "key" and
    "value". Each method returns the version that holds the change: the table's own where nothing differs from what was asked. A
    change that another's commit came first is decided again on the newest version. Raises, besides what each says, UnsupportedTable
    for a table that this release may not write, CommitConflict, CommitOutcomeUnknown, CorruptTable and StoreError.
    """

    def __init__(self, reshaper: MetadataCommitter) -> None:
        """Use `table.alter`."""
        self._reshaper = reshaper

    def add_column(
        self,
        name: ColumnName,
        type: pa.DataType | str,  # noqa: A002  # what Arrow calls it
        *,
        nullable: bool = True,
        after: str | None = None,
        comment: str | None = None,
    ) -> int:
        """Add a column, or a field to a struct; rows that are there have null. Returns the new version.

        Args:
            name: The new column, which must not exist; a name that was dropped is a new column without the old values.
            type: Its Arrow type, or the short name of one, such as "int64".
            nullable: Whether it may be null; only a table without rows takes one that may not.
            after: The column beside it that it follows; without it, it is the last.
            comment: What it is.

        A default is set apart, by `set_default`: Delta's holds for rows to come alone. Raises InvalidChange, InvalidOption,
        UnknownColumn, UnsupportedType.
        """
        check_text("comment", comment, optional=True)
        kind = _delta_field("new", parse_type(type), nullable=nullable).with_metadata(comment=comment)

        def change(state: TableState) -> TableDefinition:
            shape = TableDefinition.of(state)
            path = shape.path(name)
            return plan.add_column(shape, path, replace(kind, name=path[-1]), after, self._reshaper.new_name)

        said = {"name": _dotted(name), "type": encode_type(kind.type), "nullable": nullable, "after": after, "comment": comment}
        column = {key: value for key, value in said.items() if value is not None}
        return self._change("ADD COLUMNS", {"columns": [{"column": column}]}, change)

    def rename_column(self, name: ColumnName, new: str) -> int:
        """Give a column or nested field another name (`new` alone, not a path); returns the new version.

        The table needs column mapping: `set_properties({"delta.columnMapping.mode": "name"})`. Raises InvalidChange (no column mapping, a
        name that is taken, a column that a constraint or a generated column speaks of), UnknownColumn.
        """
        check_text("new", new)
        return self._change(
            "RENAME COLUMN",
            {"oldColumnPath": _dotted(name), "newColumnPath": ".".join((*_steps(name)[:-1], new))},
            lambda state: _planned(state, name, lambda shape, path: plan.rename_column(shape, path, new)),
        )

    def drop_column(self, name: ColumnName) -> int:
        """Take a column or nested field away; older versions keep it, and so do files until they are written anew. Returns the new version.

        The table needs column mapping, as for `rename_column`. Raises InvalidChange (no column mapping, a partition column, the last one,
        a column that a constraint or a generated column speaks of), UnknownColumn.
        """
        return self._change(
            "DROP COLUMNS",
            {"columns": [_dotted(name)]},
            lambda state: _planned(state, name, plan.drop_column),
        )

    def widen(self, name: ColumnName, type: pa.DataType | str) -> int:  # noqa: A002  # as above
        """Give a column or nested field a type that holds every value it may hold, exactly; returns the new version.

        Integers become wider ones, float becomes double, decimals gain digits, byte to int become double or decimal, long becomes decimal,
        a date becomes a timestamp without a zone, and void any type. The table needs `delta.enableTypeWidening`. Raises InvalidChange with
        what is allowed, UnknownColumn, UnsupportedType.
        """
        kind = _delta_field("x", parse_type(type), nullable=True).type
        return self._change(
            "CHANGE COLUMN",
            {"column": {"name": _dotted(name), "type": encode_type(kind)}},
            lambda state: _planned(state, name, lambda shape, path: plan.widen_column(shape, path, kind)),
        )

    def set_default(self, name: str, expression: str | None) -> int:
        """Set what rows get that are written without a column: a SQL expression without columns, such as "'new'"; None takes it away.

        Rows that are there stay as they are. Returns the new version. Raises InvalidQuery, InvalidValue (a value that the column cannot
        hold), InvalidChange, UnknownColumn.
        """
        check_text("expression", expression, optional=True)
        text = None if expression is None else spark_sql(expression)

        def change(state: TableState) -> TableDefinition:
            shape = TableDefinition.of(state)
            after = plan.set_default(shape, shape.path(name), text)
            if text is not None:
                typed = pa.schema([to_arrow(after.schema).field(shape.path(name)[0]).remove_metadata()])
                evaluate(pa.table({"_": [0]}), {typed.names[0]: text}, typed, dialect="spark", deterministic=False)
            return after

        return self._change("CHANGE COLUMN", {"column": {"name": name, "default": text}}, change)

    def comment_column(self, name: ColumnName, comment: str | None) -> int:
        """Say what a column or nested field is; None takes that away. Returns the new version. Raises UnknownColumn, InvalidOption."""
        check_text("comment", comment, optional=True)
        return self._change(
            "CHANGE COLUMN",
            {"column": {"name": _dotted(name), "comment": comment}},
            lambda state: _planned(state, name, lambda shape, path: plan.comment_column(shape, path, comment)),
        )

    def set_properties(self, properties: Mapping[str, object], *, rewrite: bool = False) -> int:
        """Set properties, such as {"delta.enableChangeDataFeed": True}; returns the new version.

        Flags, numbers and timedeltas may be Python's. What a property needs of the protocol comes with it, which may shut older readers
        and writers out; "delta.feature.NAME": "supported" brings a feature alone. Column mapping "name" gives every column an id and the
        name that files know it by. Raises InvalidOption for an unknown `delta.` name or a value that is none, NotSupported for what this
        release would not keep.

        `publish` ("iceberg", "hudi" or both, in a list) has the table described in these formats after each commit; with
        `publish_on_commit`, `iceberg_catalog` and `iceberg_table` as time-series tables have them. It looks into all files' footers first; with
        `rewrite` the files that cannot be published as they are, since rows of them are deleted by deletion vectors or they hold other types
        or ids, are written anew by commits before. Raises NotSupported, UnsupportedType, InvalidChange or SchemaMismatch for a table that
        cannot be published, TableExists where another writer's table lies in the place.
        """
        parsed = parse_properties(properties)
        if rewrite:
            self._reshaper.rewrite(lambda state: plan.set_properties(TableDefinition.of(state), properties))
        return self._change(
            "SET TBLPROPERTIES",
            {"properties": parsed},
            lambda state: plan.set_properties(TableDefinition.of(state), properties),
            EVERYTHING if parsed.get(PUBLISH) else NOTHING,
        )

    def unset_properties(self, names: Iterable[str]) -> int:
        """Take properties away, so that their defaults hold; returns the new version. The protocol stays.

        Raises InvalidOption for one that is not set, a constraint, and column mapping, which stays for good.
        """
        given = (names,) if isinstance(names, str) else tuple(names)
        return self._change(
            "UNSET TBLPROPERTIES",
            {"properties": list(given), "ifExists": "false"},
            lambda state: plan.unset_properties(TableDefinition.of(state), given),
        )

    def add_constraint(self, name: str, expression: str) -> int:
        """Require a condition in SQL of every row, such as "price > 0": one for which it is false or null is refused from then on.

        The rows that are there are read and checked first. Returns the new version. Raises InvalidValue that names the first row which breaks
        it; InvalidQuery, UnknownColumn, InvalidOption for a name that is taken.
        """
        check_text("name", name)
        check_text("expression", expression)
        text = spark_sql(expression)

        def change(state: TableState) -> TableDefinition:
            after = plan.add_constraint(TableDefinition.of(state), name, text)
            if after.metadata != state.metadata:
                self._reshaper.check_rows(state, name, text)
            return after

        return self._change("ADD CONSTRAINT", {"name": name, "expr": text}, change, EVERYTHING)

    def drop_constraint(self, name: str) -> int:
        """Require a condition no more; returns the new version. Raises InvalidOption where there is none of that name."""
        return self._change(
            "DROP CONSTRAINT", {"name": name}, lambda state: plan.drop_constraint(TableDefinition.of(state), name)
        )

    def _change(self, operation: str, parameters: Mapping[str, object], change: Change, reads: Reads = NOTHING) -> int:
        return self._reshaper.change(operation, parameters, change, reads)


def _planned(
    state: TableState, name: ColumnName, plan: Callable[[TableDefinition, tuple[str, ...]], TableDefinition]
) -> TableDefinition:
    """What a version becomes by a change of one column."""
    shape = TableDefinition.of(state)
    return plan(shape, shape.path(name))


def _delta_field(name: str, type_: pa.DataType, *, nullable: bool) -> StructField:
    """A column of an Arrow type as Delta has it; raises UnsupportedType."""
    return from_arrow(pa.schema([pa.field(name, type_, nullable=nullable)])).fields[0]


def _steps(name: object) -> tuple[str, ...]:
    """The steps of a path, to be told; what is none is refused where it is looked up."""
    if isinstance(name, str):
        return tuple(name.split("."))
    return tuple(map(str, name)) if isinstance(name, Sequence) else (repr(name),)


def _dotted(name: object) -> str:
    return ".".join(_steps(name))
