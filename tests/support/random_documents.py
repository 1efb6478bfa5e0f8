"""Random documents and filters over few fields and values, so that most filters match some documents and not all.

What the server that they are tried on is known to get wrong is not among them: `$mod` of integers beyond 2^53, `$all` over a dotted path or of
an empty array, numbers in paths through arrays, filters below `$elemMatch` that meet arrays in arrays, and binary values of other subtypes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

FIELDS = ("a", "b", "a.b", "b.a")
SCALARS: tuple[Any, ...] = (
    None, 0, 1, 2, -1, 1.0, 1.5, -0.0, float("nan"), float("inf"), Int64(1), Int64(2**53 + 1), 2.0**53, Decimal128("1"),
    Decimal128("1.5"), Decimal128("NaN"), True, False, "", "a", "ab", "b", "A", datetime(2026, 1, 5, tzinfo=UTC),
    datetime(2026, 1, 6, tzinfo=UTC), b"a", b"ab", ObjectId("5" * 24), ObjectId("6" * 24),
)  # fmt: skip
PATTERNS = ("^a", "b$", "A", "")


def value(seed: random.Random, depth: int = 2) -> Any:
    """A value of at most so many levels."""
    shape = seed.random()
    if depth and shape < 0.2:
        return [value(seed, depth - 1) for _ in range(seed.randrange(4))]
    if depth and shape < 0.4:
        return {name: value(seed, depth - 1) for name in seed.sample(["a", "b", "0", "1"], seed.randrange(3))}
    return seed.choice(SCALARS)


def document(seed: random.Random, number: int) -> dict[str, Any]:
    """A document whose `_id` is `number`."""
    return {"_id": number, **{name: value(seed, 3) for name in ("a", "b") if seed.random() < 0.85}}


def condition(seed: random.Random, depth: int = 2) -> dict[str, Any]:
    """A filter."""
    if depth and seed.random() < 0.25:
        parts = [condition(seed, depth - 1) for _ in range(seed.randrange(1, 3))]
        return {seed.choice(["$and", "$or", "$nor"]): parts}
    names = seed.sample(FIELDS, 1 if seed.random() < 0.8 else 2)
    return {name: asked(seed, depth, dotted="." in name) for name in names}


def asked(seed: random.Random, depth: int, *, dotted: bool) -> Any:
    """What is asked of a field: a value, a pattern or operators."""
    shape = seed.random()
    if shape < 0.2:
        return value(seed)
    if shape < 0.25:
        return re.compile(seed.choice(PATTERNS), seed.choice([0, re.IGNORECASE]))
    return operators(seed, depth, dotted=dotted)


def operators(seed: random.Random, depth: int, *, dotted: bool = False) -> dict[str, Any]:
    """One or two of them."""
    made: dict[str, Callable[[], Any]] = {
        "$eq": lambda: value(seed),
        "$ne": lambda: value(seed),
        "$gt": lambda: value(seed, 1),
        "$gte": lambda: value(seed, 1),
        "$lt": lambda: value(seed, 1),
        "$lte": lambda: value(seed, 1),
        "$in": lambda: listed(seed),
        "$nin": lambda: listed(seed),
        "$exists": lambda: seed.choice([True, False, 0, 1]),
        "$type": lambda: seed.choice(
            ["number", "string", "array", "object", "null", "bool", 1, 16, 18, ["int", "long"], "decimal"]
        ),
        "$size": lambda: seed.randrange(4),
        "$regex": lambda: seed.choice(PATTERNS),
        "$bitsAllSet": lambda: seed.choice([1, [0, 1], b"a"]),
        "$bitsAnyClear": lambda: seed.choice([1, 3, [63, 70]]),
    }
    if depth:
        made["$not"] = lambda: operators(seed, depth - 1, dotted=dotted)
        made["$elemMatch"] = lambda: operators(seed, depth - 1, dotted=True)
    if not dotted:
        made["$all"] = lambda: [seed.choice(SCALARS) for _ in range(seed.randrange(3))]
    names = seed.sample(list(made), 1 if seed.random() < 0.7 else 2)
    return {name: made[name]() for name in names}


def listed(seed: random.Random) -> list[Any]:
    """Values and patterns."""
    return [re.compile(seed.choice(PATTERNS)) if seed.random() < 0.15 else value(seed, 1) for _ in range(seed.randrange(4))]


def any_value(seed: random.Random, depth: int = 3) -> Any:
    """A value of any type of BSON's that its codec can write, at most so many levels deep."""
    shape = seed.random()
    if depth and shape < 0.15:
        return [any_value(seed, depth - 1) for _ in range(seed.randrange(4))]
    if depth and shape < 0.3:
        names = seed.sample(["a", "", "é", "a.b", "$c", "0"], seed.randrange(4))
        return {name: any_value(seed, depth - 1) for name in names}
    made: tuple[Callable[[], Any], ...] = (
        lambda: seed.choice(SCALARS),
        lambda: seed.randrange(-(2**63), 2**63),
        lambda: seed.uniform(-1e300, 1e300),
        lambda: "".join(chr(seed.choice([0, 65, 0x20AC, 0x1F600])) for _ in range(seed.randrange(5))),
        lambda: Binary(seed.randbytes(3), seed.choice([0, 1, 5, 128])),
        lambda: UUID(bytes=seed.randbytes(16), version=4),
        lambda: DatetimeMS(seed.randrange(-(2**62), 2**62)),
        lambda: Timestamp(seed.randrange(2**32), seed.randrange(2**32)),
        lambda: Regex("^a", "im"),
        lambda: Code("x"),
        lambda: Code("x", {"y": 1}),
        lambda: DBRef("c", seed.randrange(9)),
        lambda: seed.choice([MinKey(), MaxKey()]),
        lambda: Decimal128(seed.choice(["1E+6144", "-0", "Infinity", "0.1"])),
    )
    return seed.choice(made)()
