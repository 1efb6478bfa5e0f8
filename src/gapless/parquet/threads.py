"""Work on all cores: acts that keep a processor busy without Python, one beside the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

Made = TypeVar("Made")

WORTH_THREADS_BYTES = 8 << 20
"""Less Arrow memory than this is worked on before threads are made."""


def side_by_side(acts: Iterable[Callable[[], Made]], memory_bytes: int) -> list[Made]:
    """What the acts give, in their order; as many at a time as Arrow has cores, where there is that much Arrow memory to work on.

    Raises what the first of them that fails raises.
    """
    if pa.cpu_count() < 2 or memory_bytes < WORTH_THREADS_BYTES:
        return [act() for act in acts]
    # Threads live no longer than the call: a fork would leave a pool without any.
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        return [future.result() for future in [pool.submit(act) for act in acts]]
