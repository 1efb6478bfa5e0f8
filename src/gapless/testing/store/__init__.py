"""The contract of a store, as a test class: subclass it and get the whole suite; and stores that fail on purpose."""

from gapless.testing.store.contract import StoreContract

__all__ = ["StoreContract"]
