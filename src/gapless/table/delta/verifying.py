"""Looking for damage in a Delta table."""

from __future__ import annotations

from gapless.maintain.delta.verify import verify_delta
from gapless.maintain.finding import VerifyReport
from gapless.table.delta.handle import DeltaHandle


class Verifying(DeltaHandle):
    """`verify`."""

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Look for damage in the table's log, and in all files that its newest version names, whichever version this handle sees.

        `deep` reads every row too. See `gl.verify`, which also takes a table that does not open. Raises StoreError.
        """
        return verify_delta(self._rim, deep=deep)
