"""Of which rows a condition in SQL is true."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.errors import InvalidQuery, SchemaMismatch
from gapless.table.delta.expressions import evaluate

_TRUE = pa.schema([pa.field("true", pa.bool_())])


def true_rows(rows: pa.Table, condition: str) -> npt.NDArray[np.bool_]:
    """For each row whether the condition, SQL over its columns, is true: where it is false or null it is not.

    Raises InvalidQuery, also for an expression that is neither true nor false; UnknownColumn; InvalidValue for a row for which it
    cannot be computed.
    """
    try:
        answer = evaluate(rows, {"true": condition}, _TRUE)
    except SchemaMismatch as error:
        raise InvalidQuery(
            f"{condition} is no condition",
            why="It is neither true nor false",
            fix="Write what is one of them, such as id > 3",
            sql=condition,
        ) from error
    true: npt.NDArray[np.bool_] = answer.column(0).fill_null(False).to_numpy()
    return true
