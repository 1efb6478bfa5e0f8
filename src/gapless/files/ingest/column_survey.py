"""Which types fit columns of texts, many columns at a time where they are short. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.ingest.cells.texts import SHAPES, Candidates, pointed, survey, without

FEW_ROWS = 256
"""Columns of at most as many texts are looked at together: a call of Arrow's on each would cost more than its work."""


def survey_columns(
    columns: Sequence[pa.Array], before: Sequence[Candidates], nulls: tuple[str, ...], decimal_point: str
) -> list[Candidates]:
    """What `texts.survey` says of each column, `before` being what it said of earlier texts of the same columns.

    All columns are equally long; texts that are one of `nulls` are none.
    """
    rows = len(columns[0]) if columns else 0
    if len(columns) < 2 or not 0 < rows <= FEW_ROWS:
        return [survey(without(one, nulls), known, decimal_point) for one, known in zip(columns, before, strict=True)]
    texts = without(pa.concat_arrays(columns), nulls)
    alike: dict[tuple[Candidates, tuple[bool, ...]], list[int]] = {}
    shapes = _shapes(texts, rows, decimal_point)
    for at, (known, shape) in enumerate(zip(before, shapes, strict=True)):
        alike.setdefault((known, shape), []).append(at)
    found: list[Candidates] = list(before)
    for (known, shape), places in alike.items():
        if known == () or all(shape):  # no text looks like all types: there is none
            continue
        parts = [texts.slice(at * rows, rows) for at in places]
        fits = survey(pa.concat_arrays(parts), known, decimal_point)
        # A type that one of them does not hold, though all look like it, may fit others.
        whole = tuple(type_ for type_, looks in zip(SHAPES, shape, strict=True) if looks and (known is None or type_ in known))
        for at, part in zip(places, parts, strict=True):
            found[at] = fits if fits == whole else survey(part, known, decimal_point)
    return found


def _shapes(texts: pa.Array, rows: int, decimal_point: str) -> list[tuple[bool, ...]]:
    """Of each column, which of SHAPES all its texts have; all where it has no text."""
    told = []
    for type_, shape in SHAPES.items():
        written = pointed(texts, decimal_point) if pa.types.is_floating(type_) and decimal_point != "." else texts
        fits = pc.fill_null(pc.match_substring_regex(written, shape), fill_value=True)
        told.append(np.asarray(fits).reshape(-1, rows).all(axis=1))
    return [tuple(column) for column in np.stack(told, axis=1).tolist()]
