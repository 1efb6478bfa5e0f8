"""Accumulators as expressions of one document: of the elements of one array, or of several operands. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.documents.expressions.accumulators import PLAIN, Accumulator
from gapless.documents.expressions.operands import Make, Parsing
from gapless.documents.expressions.scope import Evaluate, Scope
from gapless.documents.filters.paths import is_array


def _gathered(fresh: Callable[[], Accumulator]) -> Make:
    def make(operator: str, given: Any, at: Parsing) -> Evaluate:  # noqa: ARG001  # as every `Make`
        operands = list(given) if is_array(given) else [given]
        parts = [at.read(one) for one in operands]

        def gathered(scope: Scope) -> Any:
            values = [one(scope) for one in parts]
            # A single operand that is an array counts as its elements.
            state = fresh()
            for value in values[0] if len(values) == 1 and is_array(values[0]) else values:
                state.add(value)
            return state.result()

        return gathered

    return make


ACCUMULATED: Mapping[str, Make] = {
    name: _gathered(PLAIN[name]) for name in ("$sum", "$avg", "$min", "$max", "$stdDevPop", "$stdDevSamp", "$mergeObjects")
}
