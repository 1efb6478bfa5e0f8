"""Stages that divide documents by ranges of a value: `$bucket` and `$bucketAuto`. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from gapless.documents.aggregation.fields import Parse
from gapless.documents.aggregation.gathering import Gather
from gapless.documents.aggregation.groups import Group, parse_output
from gapless.documents.aggregation.operands import count, named
from gapless.documents.aggregation.rows import Sorted
from gapless.documents.aggregation.stages import Document, Parsing, Running, Stage, wrong_stage
from gapless.documents.expressions.accumulators import Accumulator
from gapless.documents.expressions.operands import wrong_result
from gapless.documents.expressions.scope import NO_VARIABLES, Constant, Evaluate, scope_of, value_key
from gapless.documents.find.sort import parse_sort
from gapless.documents.spill.sorter import Sorter
from gapless.documents.values.codec import ID
from gapless.documents.values.order import MISSING, Key, sort_key
from gapless.documents.values.order_bytes import order_bytes
from gapless.errors import NotSupported

_COUNT = {"count": {"$sum": 1}}


def _bucket(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    options = named(stage, given, ("groupBy", "boundaries"), ("default", "output"))
    boundaries = at.expression(options["boundaries"])
    if not isinstance(boundaries, Constant) or not isinstance(boundaries.value, list) or len(boundaries.value) < 2:
        raise wrong_stage(stage, options["boundaries"], "boundaries are at least two values", "Pass [0, 10, 100]")
    keys = [sort_key(one) for one in boundaries.value]
    if any(one >= other or one[0] != other[0] for one, other in pairwise(keys)):
        raise wrong_stage(stage, boundaries.value, "boundaries are of one type, each above the last", "Pass [0, 10, 100]")
    default: Any = MISSING
    if "default" in options:
        constant = at.expression(options["default"])
        if not isinstance(constant, Constant):
            raise wrong_stage(stage, options["default"], "default is the same for all documents", "Pass 'other'")
        default = constant.value
        if keys[0] <= sort_key(default) < keys[-1]:
            raise wrong_stage(stage, default, "default lies within the boundaries", "Pass a value beyond them, or a text")
    by = _lower_bound(at.expression(options["groupBy"]), boundaries.value, keys, default)
    fields = parse_output(stage, options.get("output", _COUNT), at)
    return Group(by=by, fields=fields), Sorted(by=parse_sort({ID: 1}))


def _lower_bound(value: Evaluate, boundaries: list[Any], keys: list[Key], default: Any) -> Evaluate:
    def found(scope: Mapping[str, Any]) -> Any:
        key = value_key(value(scope))
        place = bisect_right(keys, key) - 1
        if 0 <= place < len(keys) - 1:
            return boundaries[place]
        if default is MISSING:
            raise wrong_result("$bucket", value(scope), "It lies in no bucket, and there is no default")
        return default

    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAuto(Stage):
    """`$bucketAuto`."""

    by: Evaluate
    buckets: int
    fields: Mapping[str, Gather]

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`."""
        with Sorter(at.memory) as sorter:
            count = 0
            for count, one in enumerate(documents, start=1):  # noqa: B007  # how many there were
                sorter.add(order_bytes(sort_key(self._value(one, at))), one)
            size = max(1, int(count / self.buckets + 0.5))
            before, number, taken = b"", 0, 0
            least: Any = None
            value: Any = None
            states: dict[str, Accumulator] = {}
            for key, one in sorter:
                value = self._value(one, at)
                # Documents of one value lie in one bucket.
                if not taken or (taken >= size and key != before and number < self.buckets):
                    if taken:
                        yield _filled(least, value, states)
                    least, number, taken = value, number + 1, 0
                    states = {name: gather.fresh(scope_of({}, NO_VARIABLES)) for name, gather in self.fields.items()}
                scope = scope_of(one, at.variables)
                for name, gather in self.fields.items():
                    states[name].add(gather.value(scope))
                before, taken = key, taken + 1
            if taken:
                yield _filled(least, value, states)

    def _value(self, document: Document, at: Running) -> Any:
        value = self.by(scope_of(document, at.variables))
        return None if value is MISSING else value


def _filled(least: Any, most: Any, states: Mapping[str, Accumulator]) -> Document:
    return {ID: {"min": least, "max": most}, **{name: state.result() for name, state in states.items()}}


def _bucket_auto(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    options = named(stage, given, ("groupBy", "buckets"), ("output", "granularity"))
    if "granularity" in options:
        raise NotSupported(
            "$bucketAuto has no granularity",
            why="Series of preferred numbers are not built",
            fix="Leave it out, or say the boundaries with $bucket",
            feature="$bucketAuto granularity",
        )
    return (
        BucketAuto(
            by=at.expression(options["groupBy"]),
            buckets=count(stage, options["buckets"], 1),
            fields=parse_output(stage, options.get("output", _COUNT), at),
        ),
    )


BUCKET_STAGES: Mapping[str, Parse] = {"$bucket": _bucket, "$bucketAuto": _bucket_auto}
