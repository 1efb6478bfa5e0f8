"""Every store we ship, held to the contract of stores."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from gapless.model.protocols import Store
from gapless.store.local import file_system
from gapless.store.local.store import LocalStore
from gapless.store.memory import MemoryStore
from gapless.store.open import open_store
from gapless.testing.store.contract import StoreContract


class TestMemory(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.name = uuid.uuid4().hex

    def make_store(self) -> Store:
        return MemoryStore(self.name)


class TestLocal(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.root = tmp_path / "a b%20#?*[é" / "table"

    def make_store(self) -> Store:
        return LocalStore(self.root)


def _no_link(*_args: Any, **_kwargs: Any) -> None:
    raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))


class TestLocalWithoutLinks(TestLocal):
    @pytest.fixture(autouse=True)
    def _without(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "link", _no_link)


class TestLocalWithoutLinksAndRenames(TestLocalWithoutLinks):
    @pytest.fixture(autouse=True)
    def _without_rename(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(file_system, "_exclusive_rename", lambda: None)


class TestS3(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, s3_options: tuple[str, dict[str, str]]) -> None:
        prefix, self.options = s3_options
        self.location = f"{prefix}/a b%20#?*[é/table"

    def make_store(self) -> Store:
        return open_store(self.location, self.options)


class TestS3OddPrefix(TestS3):
    """Keys that begin with what an URL parser would decode or cut."""

    @pytest.fixture(autouse=True)
    def _place(self, s3_options: tuple[str, dict[str, str]]) -> None:
        prefix, self.options = s3_options
        self.location = f"{prefix}-😈/%2F"
