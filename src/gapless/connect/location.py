"""What the URL of a sink or source says: its kind, and where it lies."""

from __future__ import annotations

import os
import re
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
        shown = without_secrets(text) if text else url
        raise InvalidOption(
            f"{shown!r} names no kind of table",
            why=f"What comes before the first ':' is the kind, one of {' and '.join(map(repr, kinds))}",
            fix=f"Pass such as 'delta:trips' or 'timeseries:s3://bucket/prices'. {nearest(kind, kinds)}",
            option="url",
            value=shown,
        )
    return kind, location


def without_secrets(url: str) -> str:
    """A URL for messages: without who asks, by which password, and without its query.

    >>> without_secrets("postgresql://ada:secret@db/trips?sslkey=x")
    'postgresql://…@db/trips?…'
    """
    bare, query, _ = url.partition("?")
    return re.sub(r"//[^/]*@", "//…@", bare) + ("?…" if query else "")
