"""Queries before and after a fork: the child has a DuckDB of its own, and ends as any process does."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import gapless as gl
from process.writer import run_python

ROWS = 200_000
FORKED = """if True:
    import os, sys
    import gapless as gl

    def asked():
        return gl.open({place!r}).sql("select sum(n) as s, count(*) as c from this").to_arrow().to_pylist()

    expected = asked()
    for leave in ("return", "unused", "_exit"):
        child = os.fork()
        if not child:
            if leave != "unused":
                assert asked() == expected == asked()
            if leave == "_exit":
                os._exit(0)
            sys.exit(0)  # lets go of what modules hold
        assert os.waitpid(child, 0)[1] == 0, leave
        assert asked() == expected
"""


def test_children_ask_and_end_and_their_parent_asks_on(tmp_path: Path) -> None:
    """A fork while a query is under way is no case: DuckDB's locks are not made for it."""
    table = gl.create(tmp_path / "t", index="i", index_type="int64", bucket=1_000)
    table.append(pa.table({"i": range(ROWS), "n": [n % 7 for n in range(ROWS)]}))
    assert run_python(FORKED.format(place=str(tmp_path / "t"))) == 0
