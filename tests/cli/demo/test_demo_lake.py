"""`gapless demo lake`: all that it shows is so."""

from __future__ import annotations

from pathlib import Path

import pytest

import gapless as gl
from gapless.cli.app import run
from gapless.cli.demo.lake import RUNS


def test_orders_come_through_failures_into_a_lake_and_its_replica(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert run(["demo", "lake", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert [code for code in ("partial-failure", "read-only-replica") if f"[{code}]" not in said.err] == []
    for name in ("lake", "replica"):
        rows = gl.lake.open(tmp_path / "out" / name).table("orders").to_arrow().sort_by("id")
        assert rows.column("id").to_pylist() == list(range(1, RUNS[2] + 1))
        assert rows.column("coupon").null_count == RUNS[1]
        assert rows.column("amount").to_pylist()[-1] == 10 * RUNS[2] + 0.5
    runs = gl.lake.open(tmp_path / "out/lake").table("orders").manifests()
    assert [(one.rows, one.status) for one in runs] == [(6, "complete"), (4, "partial"), (2, "complete"), (6, "complete")]
    assert "In sync." in said.out
    assert run(["demo", "lake", "--out", str(tmp_path / "out")]) == 0  # anew


def test_what_the_demo_has_not_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "lakes"]) == 2
    assert "'lake'" in capsys.readouterr().err
