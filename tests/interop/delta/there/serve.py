"""Another engine at work: asked over its standard input, in the environment in which it is installed. Imports nothing of ours.

`python serve.py KIND`: KIND names the module beside this one whose functions answer. A message is two blocks, each with its length before
it: JSON, and an Arrow stream or nothing. A request's JSON is {"do": function, …its other arguments by name}; its Arrow stream becomes the
argument `rows`. An answer's JSON is {"value": …} or {"error": …}; a table that a function returns is its Arrow stream.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import struct
import sys
import traceback
from typing import IO, Any

import pyarrow as pa


def send(stream: IO[bytes], told: dict[str, Any], table: pa.Table | None = None) -> None:
    """Write one message."""
    sink = io.BytesIO()
    if table is not None:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    stream.writelines(struct.pack("<q", len(block)) + block for block in (json.dumps(told).encode(), sink.getvalue()))
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], pa.Table | None] | None:
    """The next message; None at the end."""
    blocks = []
    for _ in range(2):
        size = stream.read(8)
        if len(size) < 8:
            return None
        blocks.append(stream.read(struct.unpack("<q", size)[0]))
    table = pa.ipc.open_stream(blocks[1]).read_all() if blocks[1] else None
    return json.loads(blocks[0]), table


def answer(acts: Any, told: dict[str, Any], rows: pa.Table | None) -> tuple[dict[str, Any], pa.Table | None]:
    """What the module's function says."""
    named = {name: value for name, value in told.items() if name != "do"}
    if rows is not None:
        named["rows"] = rows
    try:
        value = getattr(acts, told["do"])(**named)
    except Exception as error:  # noqa: BLE001 - whoever asked hears of it
        return {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}, None
    return ({}, value) if isinstance(value, pa.Table) else ({"value": value}, None)


def main(kind: str) -> None:
    """Answer until the input ends. What libraries print goes to standard error."""
    asked, told = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    acts = importlib.import_module(kind)
    while (message := receive(asked)) is not None:
        send(told, *answer(acts, *message))
    getattr(acts, "stop", lambda: None)()


if __name__ == "__main__":
    main(sys.argv[1])
