"""Texts of decimals, as Arrow reads them rightly: it wraps without a word what has more digits than it has room for on the way."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc


class UnfitText(Exception):
    """A text that says no decimal of the type: `row` in the array."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


def readable_decimals(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """The texts, where those that Arrow could read as another number are written out in digits of the type; raises UnfitText for the first
    that is none of the type's.

    Few are looked at one by one: those with an exponent, and those so long that their digits might not fit before they are scaled.
    """
    room = (38 if type_.bit_width <= 128 else 76) - type_.scale
    doubtful = pc.or_(pc.greater(pc.utf8_length(texts), room), pc.match_substring_regex(texts, "[eE]"))
    at = pc.indices_nonzero(doubtful.fill_null(False)).to_pylist()
    if not at:
        return texts
    values = texts.to_pylist()
    for row in at:
        found = _written_out(values[row], type_)
        if found is None:
            raise UnfitText(row)
        values[row] = found
    return pa.array(values, texts.type)


def _written_out(text: str, type_: pa.DataType) -> str | None:
    """The number without an exponent and with as many decimal places as the type has; None where it is none of the type."""
    context = Context(prec=len(text) + type_.precision, Emin=MIN_EMIN, Emax=MAX_EMAX)
    try:
        value = Decimal(text)
        if not value:
            return "0"
        if not value.is_finite() or value.adjusted() >= type_.precision - type_.scale:
            return None
        rounded = value.quantize(Decimal(1).scaleb(-type_.scale), context=context)
    except InvalidOperation:
        return None
    return f"{rounded:f}" if rounded == value else None
