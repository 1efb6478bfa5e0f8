"""What the URL of a sink or source says: its kind, and where it lies."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gapless.errors import InvalidOption, nearest


def split_url(url: object, kinds: Sequence[str]) -> tuple[str, str]:
    """The kind and the location of "delta:s3://lake/trips"; raises InvalidOption for another kind than these.

    >>> split_url("delta:s3://lake/trips", ("timeseries", "delta"))
    ('delta', 's3://lake/trips')
    """
    text = url if isinstance(url, str) else os.fspath(url) if isinstance(url, os.PathLike) else ""
    kind, colon, location = text.partition(":")
    if not colon or kind not in kinds or not location:
        raise InvalidOption(
            f"{text or url!r} names no kind of table",
            why=f"What comes before the first ':' is the kind, one of {' and '.join(map(repr, kinds))}",
            fix=f"Pass such as 'delta:trips' or 'timeseries:s3://bucket/prices'. {nearest(kind, kinds)}",
            option="url",
            value=url,
        )
    return kind, location
