"""A file of blocks, each a list of values that is read by itself. Pure: the file is handed in."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

from gapless.documents.spill.memory import Memory
from gapless.errors import StorageFull


class Block(NamedTuple):
    """Where a block lies in the file."""

    offset: int
    length: int


class Blocks:
    """The file, which is opened with the first block."""

    def __init__(self, open_file: Callable[[], BinaryIO]) -> None:
        self._open = open_file
        self._file: BinaryIO | None = None
        self._end = 0

    def write(self, values: list[Any]) -> Block:
        """Keep values. Raises StorageFull."""
        if self._file is None:
            self._file = self._open()
        data = packed(values)
        try:
            self._file.seek(self._end)
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise StorageFull(
                "there is no room for a temporary file",
                why=f"{error}; documents beyond the memory's limit lie in one",
                fix="Make room there, name another folder by TMPDIR, or raise memory_limit",
                path="",
            ) from error
        block = Block(self._end, len(data))
        self._end += len(data)
        return block

    def read(self, block: Block) -> list[Any]:
        """The values of a block."""
        assert self._file is not None
        self._file.seek(block.offset)
        found: list[Any] = unpacked(self._file.read(block.length))
        return found

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()
            self._file = None


class Spilling:
    """What holds values in memory and in a file, which is gone with the block that it is used in."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._blocks = Blocks(memory.open)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._blocks.close()


def packed(value: object) -> bytes:
    """A value as bytes, which `unpacked` makes the same of: MISSING, and each of BSON's types, too."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def unpacked(data: bytes) -> Any:
    """The value."""
    # Bytes of this process: they lie in memory, or in a file without a name.
    return pickle.loads(data)  # noqa: S301
