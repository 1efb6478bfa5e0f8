"""Whatever is given to an expression or a stage is answered or refused with an error of ours."""

from __future__ import annotations

import contextlib
import random
from datetime import datetime

import pytest

from gapless.documents.aggregation.parse import parse_pipeline
from gapless.documents.aggregation.stages import Running, run
from gapless.documents.expressions.parse import parse_expression
from gapless.documents.expressions.scope import scope_of
from gapless.documents.find.projection import parse_projection
from gapless.errors import CallError, DataError
from support.random_documents import document
from support.random_operands import anything, operator, stage

DOCUMENTS = [document(random.Random(1), at) for at in range(12)]
NOW = datetime(2024, 1, 1)
SEEDS = [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 30))]


@pytest.mark.parametrize("seed", SEEDS)
def test_any_expression_is_answered_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    answers = 0
    for _ in range(10_000):
        try:
            evaluate = parse_expression(operator(chance), now=NOW)
        except (CallError, DataError):
            continue
        for one in DOCUMENTS:
            with contextlib.suppress(DataError, CallError):
                evaluate(scope_of(one))
                answers += 1
    assert answers > 3000


@pytest.mark.parametrize("seed", SEEDS)
def test_any_stage_is_answered_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    at = Running(read=lambda *_: iter(DOCUMENTS), draw=chance.random)
    answers = 0
    for _ in range(10_000):
        with contextlib.suppress(CallError, DataError):
            list(run(parse_pipeline([stage(chance)], now=NOW), iter(DOCUMENTS), at))
            answers += 1
    assert answers > 200


@pytest.mark.parametrize("seed", SEEDS)
def test_any_projection_is_answered_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(500):
        with contextlib.suppress(CallError, DataError):
            projection = parse_projection({"a": anything(chance), "b": anything(chance)}, now=NOW)
            assert projection is not None
            for one in DOCUMENTS:
                projection.apply(one)
