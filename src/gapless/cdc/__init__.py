"""Change records, their log, and envelopes of other systems; as `gl.cdc`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless._names import names_of

if TYPE_CHECKING:
    from gapless.cdc.applying import ApplyReport, apply
    from gapless.cdc.change_log import ChangeLog, Producer, log
    from gapless.cdc.consumer import Consumer, subscribe
    from gapless.cdc.debezium import from_debezium, to_debezium
    from gapless.cdc.envelope_rows import envelope_rows
    from gapless.cdc.feed import changes
    from gapless.cdc.keyed_records import rows_of_records
    from gapless.cdc.mongodb import from_mongodb, to_mongodb
    from gapless.cdc.offsets import CheckpointOffsets, DeltaOffsets, MemoryOffsets, Offsets
    from gapless.cdc.record import ChangeSource, Record

__all__ = [
    "ApplyReport",
    "ChangeLog",
    "ChangeSource",
    "CheckpointOffsets",
    "Consumer",
    "DeltaOffsets",
    "MemoryOffsets",
    "Offsets",
    "Producer",
    "Record",
    "apply",
    "changes",
    "envelope_rows",
    "from_debezium",
    "from_mongodb",
    "log",
    "rows_of_records",
    "subscribe",
    "to_debezium",
    "to_mongodb",
]

_NAMES_OF = {
    "gapless.cdc.applying": ("ApplyReport", "apply"),
    "gapless.cdc.change_log": ("ChangeLog", "Producer", "log"),
    "gapless.cdc.consumer": ("Consumer", "subscribe"),
    "gapless.cdc.offsets": ("CheckpointOffsets", "DeltaOffsets", "MemoryOffsets", "Offsets"),
    "gapless.cdc.envelope_rows": ("envelope_rows",),
    "gapless.cdc.feed": ("changes",),
    "gapless.cdc.keyed_records": ("rows_of_records",),
    "gapless.cdc.debezium": ("from_debezium", "to_debezium"),
    "gapless.cdc.mongodb": ("from_mongodb", "to_mongodb"),
    "gapless.cdc.record": ("ChangeSource", "Record"),
}

__getattr__ = names_of(__name__, _NAMES_OF, globals())
