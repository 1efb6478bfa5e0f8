"""Other engines that read and write Delta tables, started when a test asks for the first time and ended with the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from interop.delta.engines import SPARKS, Ask, Engine, installed


@pytest.fixture(scope="session")
def engine(require: Callable[[object, str], None]) -> Iterator[Ask]:
    """`engine(name)`: the running process of one; the test is skipped where it is not installed."""
    running: dict[str, Engine] = {}

    def ask(name: str) -> Engine:
        if name not in running:
            require(installed(name), f"{name} is not installed: make interop")
            running[name] = Engine(name)
            if name in SPARKS:
                require(running[name].starts(), f"Maven Central cannot be reached, which has the jars of {name}")
        return running[name]

    yield ask
    for one in running.values():
        one.close()
