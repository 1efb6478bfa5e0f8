"""Exceptions of other libraries, as errors of gapless: on the way in, and on the way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from gapless.errors import NotSupported, UnreadableInput, needs_library

_LIBRARIES = frozenset({"pandas", "polars", "duckdb", "_duckdb", "pyo3_runtime", "narwhals"})
"""Where their exceptions come from; `pyo3_runtime` is what a panic of Polars is."""


def is_library_error(error: BaseException) -> bool:
    """Whether an exception is one of Arrow's, pandas', Polars' or DuckDB's, or of a conversion between them; never a user's own.

    >>> is_library_error(pa.ArrowInvalid("a"))
    True
    >>> is_library_error(KeyboardInterrupt())
    False
    """
    if isinstance(error, pa.ArrowException | OverflowError | UnicodeError):
        return True
    return any(kind.__module__.partition(".")[0] in _LIBRARIES for kind in type(error).__mro__)


def said(error: BaseException) -> str:
    """What an exception says, in one line of at most 300 characters."""
    return (" ".join(str(error).split()) or type(error).__name__)[:300]


@contextmanager
def typed_library_errors(source: str, also: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raise UnreadableInput, which names `source`, for what another library raises as it gives its rows, and for what is in `also`."""
    try:
        yield
    except BaseException as error:
        if not (is_library_error(error) or isinstance(error, also)):
            raise
        raise UnreadableInput(
            f"{source} cannot be read as rows",
            why=f"Its library says: {said(error)}",
            fix="Mend it where it is made, or pass it as a pyarrow.Table, whose types you choose",
            source=source,
        ) from error


def missing_library(what: str, library: str, extra: str) -> NotSupported:
    """The error for a kind of source or format whose library is not installed; `extra` of gapless brings it."""
    return needs_library(f"reading {what}", library, extra)
