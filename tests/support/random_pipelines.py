"""Random pipelines over the documents of `random_documents`. Each comes with whether its documents have an order.

What the server that they are tried on is known to get wrong is not among them: `$count` of no documents, fields through arrays, `{}` and `[]` as
keys of groups, and what
`random_documents` and `random_expressions` leave out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from support.random_documents import condition
from support.random_expressions import expression, number

Stage = dict[str, Any]
FIELDS = ("a", "b", "c")
PLAIN = ("$sum", "$avg", "$min", "$max", "$first", "$last", "$push")


def pipeline(seed: random.Random) -> list[Stage]:
    """One to four stages; documents come in the order of their ids first."""
    stages: list[Stage] = [{"$sort": {"_id": 1}}]
    for _ in range(seed.randrange(1, 5)):
        stages += seed.choice(_STAGES)(seed)
    return stages


def _told(path: str) -> Any:
    """A value, but of arrays and documents the type."""
    return {"$cond": [{"$in": [{"$type": path}, ["array", "object"]]}, {"$type": path}, path]}


def _one(seed: random.Random) -> Any:
    """An expression that is no document which would say paths."""
    found = expression(seed, 2)
    is_document = isinstance(found, dict) and not any(name.startswith("$") for name in found)
    return {"$mergeObjects": [found]} if is_document else found


def _group(seed: random.Random) -> list[Stage]:
    by = seed.choice([_told("$a"), _told("$b"), None, {"a": _told("$a")}, {"k": {"$type": "$b"}}, {"$type": "$a"}])
    names = seed.sample(PLAIN, seed.randrange(1, 4))
    # The server's sums of large doubles lose more than they need.
    fields = {f"f{at}": {one: "$_id" if one in ("$sum", "$avg") else seed.choice(["$a", "$b"])} for at, one in enumerate(names)}
    few = {"few": {seed.choice(["$firstN", "$lastN"]): {"input": "$b", "n": 2}}} if seed.random() < 0.2 else {}
    return [{"$group": {"_id": by, **fields, **few, "n": {"$sum": 1}}}, {"$sort": {"n": -1, "f0": 1, "_id": 1}}]


def _project(seed: random.Random) -> list[Stage]:
    if seed.random() < 0.3:
        return [{"$project": dict.fromkeys(seed.sample(FIELDS, seed.randrange(1, 3)), 0)}]
    return [{"$project": {"a": 1, "b": seed.choice([1, _one(seed)]), "c": _one(seed)}}]


_STAGES: tuple[Callable[[random.Random], list[Stage]], ...] = (
    lambda seed: [{"$match": condition(seed, 1)}],
    lambda seed: [{"$match": {"$expr": expression(seed, 2)}}],
    lambda seed: [{seed.choice(["$addFields", "$set"]): {"c": _one(seed), "d": number(seed, 2)}}],
    _project,
    lambda seed: [{"$unset": seed.sample(FIELDS, seed.randrange(1, 3))}],
    lambda seed: [
        {"$unwind": {"path": f"${seed.choice(FIELDS)}", "preserveNullAndEmptyArrays": seed.choice([True, False])}},
    ],
    _group,
    lambda seed: [{"$sort": {seed.choice(FIELDS): seed.choice([1, -1]), "_id": 1}}],
    lambda seed: [{"$skip": seed.randrange(5)}, {"$limit": seed.randrange(5, 30)}],
    lambda seed: [{"$replaceWith": {"_id": "$_id", "a": expression(seed, 2)}}],
)
