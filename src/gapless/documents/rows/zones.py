"""Whether a filter of MongoDB's can pass a row group over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapless.documents.filters.parse import parse_filter
from gapless.documents.rows.paths import check_paths
from gapless.documents.rows.predicate import row_predicate
from gapless.files.parquet.zone import Zone


def can_skip(filter: Mapping[str, Any], zone: Zone) -> bool:  # noqa: A002  # as `matches`
    """Whether certainly no row of a row group matches a filter: see `gl.parquet.can_skip`."""
    condition = parse_filter(filter)
    check_paths(condition, zone.schema)
    return not zone.may_match(row_predicate(condition, zone.schema).predicate)
