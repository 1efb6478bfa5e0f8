"""What the URL of a sink or source says: its kind, and where it lies."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from gapless.errors import InvalidOption, InvalidPath, nearest
from gapless.tables.shared.handle import kind_of_any, open_environment

_EXAMPLES = {
    "files": "landing/*.parquet",
    "sql": "postgresql+psycopg://user@host/database",
    "http": "//host/records",
    "https": "//host/records",
}


def place_of(url: object, kinds: Sequence[str], storage_options: Mapping[str, str] | None = None) -> tuple[str, str]:
    """The kind and the location, as `split_url`; of a bare path or URL the kind of the table that lies there by now.

    Raises InvalidOption where no kind is said and no table lies there, InvalidPath, StoreError.
    """
    text = _text(url)
    if not text or text.partition(":")[0] in kinds:
        return split_url(url, kinds)
    shown = without_secrets(text)
    try:
        kind = kind_of_any(open_environment(text, storage_options).store)
    except InvalidPath:
        if shown == text:
            raise
        kind = None  # whose message has the whole text
    if kind is not None and kind in kinds:
        return kind, text
    if (":" in text and "://" not in text) or shown != text:
        return split_url(url, kinds)
    raise InvalidOption(
        f"no table lies at {shown!r}, and no kind is said",
        why=f"A place is one of a table, or begins with its kind: {', '.join(kinds)}",
        fix=f"Check the path, or pass such as 'delta:{shown}'; a sink makes a missing table with create=",
        option="url",
        value=shown,
    )


def split_url(url: object, kinds: Sequence[str]) -> tuple[str, str]:
    """The kind and the location of "delta:s3://lake/trips"; raises InvalidOption for another kind than these.

    >>> split_url("delta:s3://lake/trips", ("timeseries", "delta"))
    ('delta', 's3://lake/trips')
    """
    text = _text(url)
    kind, colon, location = text.partition(":")
    if colon and kind in kinds and not location:
        raise InvalidOption(
            f"{text!r} names nothing behind its kind",
            why=f"What comes after {text!r} says which one",
            fix=f"Pass such as '{kind}:{_EXAMPLES.get(kind, 'trips')}'",
            option="url",
            value=text,
        )
    if not colon or kind not in kinds:
        shown = without_secrets(text) if text else url
        raise InvalidOption(
            f"{shown!r} names no kind of table",
            why=f"What comes before the first ':' is the kind, one of {' and '.join(map(repr, kinds))}",
            fix=f"Pass such as 'delta:trips' or 'timeseries:s3://bucket/prices'. {nearest(kind, kinds)}",
            option="url",
            value=shown,
        )
    return kind, location


def _text(url: object) -> str:
    return url if isinstance(url, str) else os.fspath(url) if isinstance(url, os.PathLike) else ""


def without_secrets(url: str) -> str:
    """A URL for messages: without who asks, by which password, and without its query.

    >>> without_secrets("postgresql://ada:secret@db/trips?sslkey=x")
    'postgresql://…@db/trips?…'
    """
    bare, query, _ = url.partition("?")
    return re.sub(r"//[^/]*@", "//…@", bare) + ("?…" if query else "")
