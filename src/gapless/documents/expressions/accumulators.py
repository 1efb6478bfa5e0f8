"""What is gathered of many values: sums, means, extremes, lists. Each takes values one by one, as `$group` does. Pure."""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bson.decimal128 import Decimal128

from gapless.documents.expressions.operands import wrong_value
from gapless.documents.expressions.scope import is_null
from gapless.documents.find.sort import Descending
from gapless.documents.values.numbers import as_decimal, is_number, whole_number
from gapless.documents.values.order import MISSING, Key, sort_key
from gapless.documents.values.sums import Sum


class Accumulator(Protocol):
    """Values that were gathered so far. One that holds several of them has a length."""

    def add(self, value: Any) -> None:
        """Take one more; MISSING where a document has none. Raises InvalidValue."""
        ...

    def result(self) -> Any:
        """What comes out."""
        ...


@dataclass(slots=True)
class Total:
    """`$sum`: of what are numbers; 0 without any."""

    sum: Sum = field(default_factory=Sum)

    def add(self, value: Any) -> None:
        """See `Accumulator`."""
        if is_number(value):
            self.sum.add(value)

    def result(self) -> Any:
        """See `Accumulator`."""
        return self.sum.result()


class Mean(Total):
    """`$avg`: of what are numbers; null without any."""

    __slots__ = ()

    def result(self) -> Any:
        """See `Accumulator`."""
        return self.sum.mean()


@dataclass(slots=True)
class Count:
    """`$count`: of all documents."""

    count: int = 0

    def add(self, value: Any) -> None:  # noqa: ARG002  # as the others
        """See `Accumulator`."""
        self.count += 1

    def result(self) -> Any:
        """See `Accumulator`."""
        return whole_number(self.count)


@dataclass(slots=True)
class Extreme:
    """`$min` and `$max`, in the order of types; null and missing values are passed over."""

    greatest: bool
    key: Key | None = None
    value: Any = None

    def add(self, value: Any) -> None:
        """See `Accumulator`."""
        if is_null(value):
            return
        key = sort_key(value)
        if self.key is None or (key > self.key if self.greatest else key < self.key):
            self.key, self.value = key, value

    def result(self) -> Any:
        """See `Accumulator`."""
        return self.value


@dataclass(slots=True)
class Deviation:
    """`$stdDevPop`, and `$stdDevSamp` where it is of a sample: a double, null without enough numbers."""

    of_sample: bool
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: Any) -> None:
        """See `Accumulator`."""
        if not is_number(value):
            return
        number = float(as_decimal(value) if isinstance(value, Decimal128) else value)
        self.count += 1
        off = number - self.mean
        self.mean += off / self.count
        self.squares += off * (number - self.mean)

    def result(self) -> Any:
        """See `Accumulator`."""
        free = self.count - self.of_sample
        if free <= 0:
            return None
        return math.sqrt(self.squares / free) if self.squares >= 0 else math.nan


@dataclass(slots=True)
class First:
    """`$first`: null where the first document has none."""

    value: Any = MISSING
    found: bool = False

    def add(self, value: Any) -> None:
        """See `Accumulator`."""
        if not self.found:
            self.value, self.found = value, True

    def result(self) -> Any:
        """See `Accumulator`."""
        return None if self.value is MISSING else self.value


class Last(First):
    """`$last`."""

    __slots__ = ()

    def add(self, value: Any) -> None:
        """See `Accumulator`."""
        self.value = value


@dataclass(slots=True)
class Pushed:
    """`$push`: all that there are, in the order in which they come."""

    values: list[Any] = field(default_factory=list)

    def add(self, value: Any) -> None:
        """See `Accumulator`."""
        if value is not MISSING:
            self.values.append(value)

    def __len__(self) -> int:
        return len(self.values)

    def result(self) -> Any:
        """See `Accumulator`."""
        return self.values


@dataclass(slots=True)
class Distinct:
    """`$addToSet`: each value once, in no order that could be relied on."""

    values: dict[Key, Any] = field(default_factory=dict)

    def add(self, value: Any) -> None:
        """See `Accumulator`."""
        if value is not MISSING:
            self.values.setdefault(sort_key(value), value)

    def __len__(self) -> int:
        return len(self.values)

    def result(self) -> Any:
        """See `Accumulator`."""
        return list(self.values.values())


@dataclass(slots=True)
class Merged:
    """`$mergeObjects`: the fields of all documents, those of later ones for those of earlier ones."""

    document: dict[str, Any] = field(default_factory=dict)

    def add(self, value: Any) -> None:
        """See `Accumulator`."""
        if is_null(value):
            return
        if not isinstance(value, Mapping):
            raise wrong_value("$mergeObjects", value, "a document")
        self.document.update(value)

    def __len__(self) -> int:
        return len(self.document)

    def result(self) -> Any:
        """See `Accumulator`."""
        return self.document


@dataclass(slots=True)
class FirstFew:
    """`$firstN`: null for missing values."""

    count: int
    values: list[Any] = field(default_factory=list)

    def add(self, value: Any) -> None:
        """See `Accumulator`."""
        if len(self.values) < self.count:
            self.values.append(None if value is MISSING else value)

    def __len__(self) -> int:
        return len(self.values)

    def result(self) -> Any:
        """See `Accumulator`."""
        return self.values


class LastFew:
    """`$lastN`: null for missing values."""

    __slots__ = ("values",)

    def __init__(self, count: int) -> None:
        self.values: deque[Any] = deque(maxlen=count)

    def add(self, value: Any) -> None:
        """See `Accumulator`."""
        self.values.append(None if value is MISSING else value)

    def __len__(self) -> int:
        return len(self.values)

    def result(self) -> Any:
        """See `Accumulator`."""
        return list(self.values)


@dataclass(slots=True)
class Sorted:
    """Values with their keys, of which those of the least keys are kept; of equal ones those that came first."""

    count: int
    found: list[tuple[Any, int, Any]] = field(default_factory=list)
    seen: int = 0

    def put(self, key: Any, value: Any) -> None:
        """Add one, where it is among the least."""
        self.seen += 1
        if len(self.found) < self.count:
            insort(self.found, (key, self.seen, value), key=_place)
        elif key < self.found[-1][0]:
            self.found.pop()
            insort(self.found, (key, self.seen, value), key=_place)

    def values(self) -> list[Any]:
        """Those that are kept, the least first."""
        return [value for _, _, value in self.found]


def _place(one: tuple[Any, int, Any]) -> tuple[Any, int]:
    return one[0], one[1]


@dataclass(slots=True)
class ExtremeFew:
    """`$minN` and `$maxN`; null and missing values are passed over."""

    kept: Sorted
    greatest: bool

    def add(self, value: Any) -> None:
        """See `Accumulator`."""
        if not is_null(value):
            key = sort_key(value)
            self.kept.put(Descending(key) if self.greatest else key, value)

    def __len__(self) -> int:
        return len(self.kept.found)

    def result(self) -> Any:
        """See `Accumulator`."""
        return self.kept.values()


@dataclass(slots=True)
class Ends:
    """`$topN` and `$bottomN`, of pairs of a key and a value; `$top` and `$bottom` where there is but one."""

    kept: Sorted
    last: bool
    one: bool

    def add(self, value: Any) -> None:
        """See `Accumulator`."""
        key, output = value
        self.kept.put(Descending(key) if self.last else key, None if output is MISSING else output)

    def __len__(self) -> int:
        return len(self.kept.found)

    def result(self) -> Any:
        """See `Accumulator`."""
        found = self.kept.values()
        if self.one:
            return found[0] if found else None
        return found[::-1] if self.last else found


PLAIN: Mapping[str, Callable[[], Accumulator]] = {
    "$sum": Total,
    "$avg": Mean,
    "$min": lambda: Extreme(greatest=False),
    "$max": lambda: Extreme(greatest=True),
    "$stdDevPop": lambda: Deviation(of_sample=False),
    "$stdDevSamp": lambda: Deviation(of_sample=True),
    "$mergeObjects": Merged,
    "$first": First,
    "$last": Last,
    "$push": Pushed,
    "$addToSet": Distinct,
}
"""Those that take one expression."""
FEW: Mapping[str, Callable[[int], Accumulator]] = {
    "$firstN": FirstFew,
    "$lastN": LastFew,
    "$minN": lambda count: ExtremeFew(Sorted(count), greatest=False),
    "$maxN": lambda count: ExtremeFew(Sorted(count), greatest=True),
}
"""Those that take `input` and `n`."""
ENDS: Mapping[str, Callable[[int], Accumulator]] = {
    "$top": lambda _: Ends(Sorted(1), last=False, one=True),
    "$bottom": lambda _: Ends(Sorted(1), last=True, one=True),
    "$topN": lambda count: Ends(Sorted(count), last=False, one=False),
    "$bottomN": lambda count: Ends(Sorted(count), last=True, one=False),
}
"""Those that take `sortBy` and `output`, and of several `n`."""
