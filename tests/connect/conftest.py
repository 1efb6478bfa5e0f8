"""Every document that a test of sinks and pipelines stores is as its published schema says."""

from __future__ import annotations

import pytest

from support.schemas import stored_documents

__all__ = ["stored_documents"]


@pytest.fixture(autouse=True)
def _documents_are_as_published(stored_documents: list[str]) -> None:
    """See `support.schemas`."""
