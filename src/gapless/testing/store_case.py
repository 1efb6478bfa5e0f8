"""What the parts of the store contract share."""

from __future__ import annotations

import pytest

from gapless.model.protocols import Store

DIGITS = b"0123456789"


class StoreCase:
    """A test class over stores: its subclass says how one is made."""

    def make_store(self) -> Store:
        """A new handle on this test's place, which is empty when the test starts."""
        raise NotImplementedError

    @pytest.fixture
    def store(self) -> Store:
        """The handle that a test works with."""
        return self.make_store()


def paths_in(store: Store, prefix: str = "", after: str = "") -> list[str]:
    """The paths that a listing gives, in its order."""
    return [info.path for info in store.list(prefix, after)]
