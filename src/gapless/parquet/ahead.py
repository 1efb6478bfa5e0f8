"""Answers in order, of which several are on their way at a time: what is asked of a store where a request takes long."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

WIDTH = 16
"""Requests on their way at a time."""
AHEAD_BYTES = 64 << 20
"""What answers that wait for their turn may hold."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request."""

    act: Callable[[], T]
    size: int = 0
    """Bytes of its answer."""


def in_order(calls: Iterable[Call[T]], *, width: int = WIDTH, limit: int = AHEAD_BYTES) -> Generator[T]:
    """The answers of calls, one after the other; raises what a call raises, in its place.

    Up to `width` calls run ahead, in threads, as long as answers that wait hold no more than `limit` bytes together; one always may. With a
    width of 1 each call runs in the caller's thread, once its answer is asked for. Calls are drawn as there is room for them.
    """
    if width <= 1:
        for call in calls:
            yield call.act()
        return
    pool = ThreadPoolExecutor(width, thread_name_prefix="gapless-ahead")
    try:
        yield from _pooled(iter(calls), pool, width, limit)
    finally:
        # Whoever stops reading early need not wait for answers that nobody wants.
        pool.shutdown(wait=False, cancel_futures=True)


def one_ahead(items: Generator[T]) -> Generator[T]:
    """The items of a generator, of which the next is made in a thread while one is worked on; raises what it raises, in its place.

    Whoever stops early waits for the one that is being made.
    """
    with closing(items), ThreadPoolExecutor(1, thread_name_prefix="gapless-ahead") as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def _pooled(calls: Iterator[Call[T]], pool: ThreadPoolExecutor, width: int, limit: int) -> Iterator[T]:
    waiting: deque[tuple[Future[T], int]] = deque()
    held, following = 0, next(calls, None)
    while waiting or following is not None:
        while following is not None and len(waiting) < width and (not waiting or held + following.size <= limit):
            waiting.append((pool.submit(following.act), following.size))
            held += following.size
            following = next(calls, None)
        future, size = waiting.popleft()
        yield future.result()
        held -= size
