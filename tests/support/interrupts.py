"""Ctrl-C as tests need it: SIGINT raises KeyboardInterrupt at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt in the main thread and ends programs that the test starts, whoever started the tests.

    A shell has its background jobs ignore it, and so do all their children; Polars' handler lets a waiting thread wait on; that of
    Spark asks a JVM first.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
