"""The earlier path of `gapless.testing.DictStore`, which goes on working."""

from gapless.testing.store.stores import DictStore

__all__ = ["DictStore"]
