"""Laying a Delta table's rows out anew: the same rows, in fewer files or in another order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from gapless.dialects.delta.properties import Settings
from gapless.errors import InvalidOption, nearest
from gapless.maintain.compact import CompactionReport
from gapless.maintain.compact_options import TARGET_BYTES, cluster_columns, parse_target_size
from gapless.maintain.delta.compact_plan import Curved
from gapless.parquet.curve_sort import CURVES
from gapless.scan.opaque import expression_text
from gapless.table.delta.compactor import DeltaCompactOptions, DeltaCompactor
from gapless.table.delta.handle import DeltaHandle
from gapless.table.delta.row_condition import RowCondition


class Compacting(DeltaHandle):
    """Compaction of a Delta table."""

    def compact(self, *, target_size: int | None = None, where: str | pc.Expression | None = None) -> CompactionReport:
        """Write small files of a partition together as larger ones, in their order, and files with deleted rows without these.

        Args:
            target_size: Bytes of Parquet that a file shall have; those of at least half of it stay as they are. Where not given, the table's
                `delta.targetFileSize`, else 128 MiB.
            where: Only files that may hold a row for which it is true, by partition values and statistics: SQL or a pyarrow expression, as
                in `scan`.

        The same rows, and no change for readers of the change feed. Runs beside appends, row changes and readers: a commit holds up to eight
        times the target size. Files that other changes removed meanwhile are let be with their bin, and the report says so; what was
        appended meanwhile waits for the next run. Replaced files stay for older versions until vacuum. A second run finds nothing to do
        and makes no commit. Raises InvalidOption, InvalidFilter, InvalidQuery, UnknownColumn, UnsupportedTable, CommitOutcomeUnknown,
        StoreError.
        """
        return self._lay_out(None, target_size, where)

    def zorder(
        self,
        columns: str | Sequence[str],
        *,
        curve: str = "z",
        target_size: int | None = None,
        where: str | pc.Expression | None = None,
    ) -> CompactionReport:
        """Write the rows of each partition anew along a curve through one to four columns, so that filters on any of them read few files.

        Args:
            columns: Columns of numbers, texts, times or booleans that are no partition columns.
            curve: "z" for the z-order, "hilbert" for the Hilbert curve, which costs more to make and lets filters open fewer files.
            target_size: Bytes of Parquet that a file shall have, as in `compact`.
            where: Only files that may hold a row for which it is true; they are ordered among each other.

        A partition whose files all lie so already stays as it is. What does not fit into about 256 MiB of memory goes through temporary
        files. The rest is as in `compact`; raises also UnsupportedType for a column whose values have no order.
        """
        if curve not in CURVES:
            raise InvalidOption(f"curve={curve!r} is not known", fix=nearest(str(curve), CURVES), option="curve", value=curve)
        self._committer.refresh(self._snapshot)
        names = cluster_columns(columns, self.schema, "columns", least=1)
        fixed = [name for name in names if name in self.partition_by]
        if fixed:
            raise InvalidOption(
                f"rows cannot be ordered by the partition column {fixed[0]!r}",
                why="All rows of a file have the same value of it",
                fix="Leave it out",
                option="columns",
                value=columns,
            )
        return self._lay_out(Curved(columns=names, curve="z" if curve == "z" else "hilbert"), target_size, where)

    def _lay_out(self, order: Curved | None, target_size: int | None, where: str | pc.Expression | None) -> CompactionReport:
        committer = self._committer
        newest = committer.refresh(self._snapshot)
        self._check_writable()
        asked = target_size or Settings.of(newest.state.configuration).target_file_size or TARGET_BYTES
        options = DeltaCompactOptions(
            target_size=parse_target_size(asked if target_size is None else target_size),
            condition=RowCondition.parse(where, self.schema).near,
            where="" if where is None else expression_text(where),
            order=order,
        )
        return DeltaCompactor(rim=self._rim, committer=committer, options=options).compact(newest)
