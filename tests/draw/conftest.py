"""Coverage to draw, made without a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import pytest
from pyroaring import BitMap64

from gapless.coverage.bitmap import SIGN, CoverageMap
from gapless.coverage.bucket import grid_of
from gapless.coverage.calendar import Sessions
from gapless.coverage.expected import hull, plan_expected, plan_ranges
from gapless.coverage.gap import Coverage
from gapless.model.index import Bucket, FixedWidth, Identity, IntWidth

HOUR = FixedWidth(3600 * 10**9)
FIRST_HOUR_2013 = 376_944


@pytest.fixture(scope="session")
def answer() -> Callable[..., Coverage[Any]]:
    """`answer({identity: bucket ids}, bucket=…, zone=…, identities=…, sessions=…)`."""

    def make(
        covered: Mapping[Identity, Iterable[int]],
        *,
        bucket: Bucket = HOUR,
        zone: tzinfo | None = UTC,
        identities: list[Identity] | None = None,
        end: int | None = None,
        sessions: Sessions | None = None,
    ) -> Coverage[Any]:
        def present(ns: int) -> datetime:
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)
            return moment.astimezone(zone) if zone else moment.replace(tzinfo=None)

        found = CoverageMap({identity: BitMap64([at + SIGN for at in ids]) for identity, ids in covered.items()})
        grid = grid_of(bucket)
        spans = plan_ranges(found, grid, None, end, identities)
        ids = plan_expected(grid, hull(spans.values()), sessions)
        return Coverage(found, grid, spans, int if isinstance(bucket, IntWidth) else present, ids)

    return make


@pytest.fixture(scope="session")
def year(answer: Callable[..., Coverage[Any]]) -> Callable[..., Coverage[Any]]:
    """`year(count, missing={identity number: hours of the year})`: hourly identities `s0000`, … over 2013."""

    def make(count: int, missing: Mapping[int, Iterable[int]] | None = None, **options: Any) -> Coverage[Any]:
        lost = {number: {FIRST_HOUR_2013 + hour for hour in hours} for number, hours in (missing or {}).items()}
        hours = range(FIRST_HOUR_2013, FIRST_HOUR_2013 + 8760)
        return answer({(f"s{n:04d}",): [h for h in hours if h not in lost.get(n, ())] for n in range(count)}, **options)

    return make
