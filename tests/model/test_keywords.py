"""Options of public functions that are handed on as one value: what is not known is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gapless as gl
from gapless.errors import InvalidOption
from gapless.model.properties import with_defaults
from gapless.spark import backfill


def test_options_that_were_not_given_have_their_defaults() -> None:
    assert with_defaults("f", {"b": 2}, {"a": 1, "b": None}) == {"a": 1, "b": 2}


CREATE: Any = gl.create
FILL: Any = gl.TimeSeriesTable.fill
BACKFILL: Any = backfill
"""As a caller has them whom no type checker warns."""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: CREATE("memory://x", index="ts", bucket="1h", entty="k"), "create.* 'entty'.* 'entity'"),
        (
            lambda: FILL(CREATE("memory://keywords", index="ts", bucket="1h"), lambda *_: None, max_worker=2),
            "fill.* 'max_worker'.* 'max_workers'",
        ),
        (lambda: BACKFILL(None, "memory://x", lambda *_: None, strat=1), "backfill.* 'strat'.* 'start'"),
    ],
)
def test_an_option_that_is_not_known_is_refused_with_the_nearest(call: Callable[[], object], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        call()
