"""Sums of BSON's numbers, in the type that their result has. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Context, Decimal

from bson.decimal128 import Decimal128
from bson.int64 import Int64

from gapless.documents.values.numbers import DECIMALS, INT32, Number, fitting

_EXACT = Context(prec=800)


@dataclass(slots=True)
class Sum:
    """Integers are added exactly, doubles with what rounding loses carried along, decimals with 34 digits."""

    wholes: int = 0
    doubles: float = 0.0
    lost: float = 0.0
    """What the doubles lost in rounding."""
    decimals: Decimal = field(default_factory=Decimal)
    count: int = 0
    long: bool = False
    double: bool = False
    decimal: bool = False

    def add(self, value: Number) -> None:
        """Add a number."""
        self.count += 1
        if isinstance(value, float):
            self.double = True
            self._add_double(value)
        elif isinstance(value, Decimal128):
            self.decimal = True
            self.decimals = DECIMALS.add(self.decimals, value.to_decimal())
        else:
            self.wholes += value
            self.long = self.long or isinstance(value, Int64) or not -INT32 <= value < INT32

    def _add_double(self, value: float) -> None:
        total = self.doubles + value
        if math.isfinite(total):
            larger, smaller = (self.doubles, value) if abs(self.doubles) >= abs(value) else (value, self.doubles)
            self.lost += (larger - total) + smaller
        self.doubles = total

    def result(self) -> Number:
        """The sum: int, long, double or Decimal128; whole numbers beyond 64 bits become a double."""
        if self.decimal:
            return Decimal128(DECIMALS.add(self.decimals, self._plain()))
        if self.double:
            return self._double()
        return fitting(self.wholes, narrow=not self.long)

    def mean(self) -> Number | None:
        """The sum by the number of its parts: a double or a Decimal128; None without any."""
        if not self.count:
            return None
        if self.decimal:
            return Decimal128(DECIMALS.divide(DECIMALS.add(self.decimals, self._plain()), Decimal(self.count)))
        return (self._double() if self.double else float(self.wholes)) / self.count

    def _double(self) -> float:
        if not math.isfinite(self.doubles):
            return self.doubles
        return math.fsum((self.doubles, self.lost, float(self.wholes)))

    def _plain(self) -> Decimal:
        """What is no decimal, exactly."""
        if not math.isfinite(self.doubles):
            return Decimal(self.doubles)
        return _EXACT.add(_EXACT.add(Decimal(self.doubles), Decimal(self.lost)), Decimal(self.wholes))
