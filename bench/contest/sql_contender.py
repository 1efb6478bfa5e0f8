"""Contenders that are asked in SQL which all of them read alike."""

from __future__ import annotations

import pyarrow as pa
from contest.contender import Contender
from contest.questions import BY_HOUR, GAPS, TOTALS


class SqlContender(Contender):
    """One whose answers come from `ask`."""

    def ask(self, question: str) -> pa.Table:
        """The answer to SQL that names the table `{table}`."""
        raise NotImplementedError

    def by_hour(self) -> pa.Table:
        return self.ask(BY_HOUR)

    def gaps(self) -> pa.Table:
        return self.ask(GAPS)

    def totals(self) -> tuple[int, int]:
        row = self.ask(TOTALS).to_pylist()[0]
        return row["rows"], int(row["volume"])
