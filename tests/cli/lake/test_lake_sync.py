"""`gapless lake sync` and `gapless lake reconcile`: what they copy, say and refuse, with their exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gapless as gl
from cli.conftest import Gapless


def document(gapless: Gapless, *words: object, cwd: Path, code: int = 0) -> Any:
    ended = gapless("lake", *words, "--json", cwd=cwd)
    assert ended.code == code, ended.err
    return json.loads(ended.out)


def test_copies_from_the_command_line(tmp_path: Path, inside: Gapless) -> None:
    one = gl.lake.init(tmp_path / "one", node="one")
    one.create_table("sales", key=["id"])
    one.create_table("notes")
    one.run("sales", [{"id": 1}])
    assert document(inside, "sync", "status", "one", "hub", cwd=tmp_path, code=1)["in_sync"] is False
    pushed = document(inside, "sync", "push", "one", "hub", "--node", "one", cwd=tmp_path)
    assert [(table["table"], table["runs"]) for table in pushed["tables"]] == [("notes", 0), ("sales", 1)]
    told = inside("lake", "sync", "pull", "replica", "hub", "--table", "sales", cwd=tmp_path)
    assert "sales: 1 run, 0 snapshots" in told.out
    assert "Pulled from" in told.out
    stands = inside("lake", "sync", "status", "replica", cwd=tmp_path)
    assert "state 1 of" in stands.out
    assert "without notes" in stands.out
    assert inside("lake", "run", "replica", cwd=tmp_path).code == 0  # its lake.toml has no pipeline
    assert "[not-replicated]" in inside("lake", "query", "replica", "SELECT * FROM notes", cwd=tmp_path).err
    assert inside("lake", "compact", "replica", "sales", cwd=tmp_path).code == 2
    assert "no lake" in inside("lake", "sync", "pull", "none", "nowhere", cwd=tmp_path).err
    assert inside("lake", "sync", "status", "one", cwd=tmp_path).code == 2

    document(inside, "sync", "pull", "two", "hub", "--writable", cwd=tmp_path)
    two = gl.lake.open(tmp_path / "two", node="two")
    one.run("sales", [{"id": 2, "a": 1}])
    two.run("sales", [{"id": 3, "b": 1}])
    two.run("notes", [{"id": 4}])
    document(inside, "sync", "push", "one", "hub", cwd=tmp_path)
    refused = inside("lake", "sync", "push", "two", "hub", "--json", cwd=tmp_path)
    assert (refused.code, "[sync-conflict]" in refused.err, "gapless lake reconcile" in refused.err) == (1, True, True)
    report = json.loads(refused.out)
    assert [(one["kind"], one["table"]) for one in report["conflicts"]] == [("schema", "sales")]
    assert [one["table"] for one in report["tables"]] == ["notes"]
    assert "Conflict" in inside("lake", "sync", "status", "two", "hub", cwd=tmp_path).out
    made = document(inside, "reconcile", "two", "sales", "hub", cwd=tmp_path)
    assert (made["changed"], made["columns"]) == (True, ["id", "a", "b"])
    assert "did not go on apart" in inside("lake", "reconcile", "two", "sales", "hub", cwd=tmp_path).out
    for _ in range(2):
        for lake in ("two", "one"):
            document(inside, "sync", "push", lake, "hub", cwd=tmp_path)
            document(inside, "sync", "pull", lake, "hub", cwd=tmp_path)
    assert document(inside, "sync", "status", "one", "hub", cwd=tmp_path)["in_sync"] is True
    assert document(inside, "query", "one", "SELECT count(*) AS n FROM sales", cwd=tmp_path) == [{"n": 3}]


def test_partitions_from_the_command_line(tmp_path: Path, inside: Gapless) -> None:
    one = gl.lake.init(tmp_path / "one", node="one")
    one.create_table("visits", partition_by=["site"])
    one.run("visits", [{"site": site, "n": number} for number, site in enumerate("abc")])
    one.table("visits").compact()
    document(inside, "sync", "push", "one", "hub", "--expire", cwd=tmp_path)
    wanted = ("--partition", "visits=site=a", "--partition", "visits=site=b")
    document(inside, "sync", "pull", "near", "hub", *wanted, cwd=tmp_path)
    assert "of visits only site=a, site=b" in inside("lake", "sync", "status", "near", cwd=tmp_path).out
    asked = ("query", "near", "SELECT n FROM visits ORDER BY n")
    assert document(inside, *asked, *wanted, cwd=tmp_path) == [{"n": 0}, {"n": 1}]
    lacks = inside("lake", *asked, "--partition", "visits=site=c", cwd=tmp_path)
    assert (lacks.code, "--partition visits=site=c" in " ".join(lacks.err.split())) == (2, True)
    assert inside("lake", *asked, cwd=tmp_path).code == 2
    document(inside, "sync", "pull", "near", "hub", "--table", "visits", "--expire", cwd=tmp_path)
    assert document(inside, *asked, cwd=tmp_path) == [{"n": 0}, {"n": 1}, {"n": 2}]
