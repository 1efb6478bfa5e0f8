"""Which kind of table lies at a place, by the log in its root."""

from __future__ import annotations

from typing import Literal

from gapless.model.protocols import Store

Kind = Literal["timeseries", "delta"]

LOG_FOLDERS: dict[Kind, str] = {"timeseries": "_timeseries_log", "delta": "_delta_log"}
"""The log of each kind. Where both lie the first one's is the table, and the other only tells strangers of it."""


def kind_of(store: Store) -> Kind | None:
    """The kind of the table in the root of a store; None where neither log has an object. Raises StoreError."""
    return next((kind for kind, folder in LOG_FOLDERS.items() if next(iter(store.list(folder)), None) is not None), None)
