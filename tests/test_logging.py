"""What gapless decides by itself is told to loggers, by layer; without a handler it prints nothing."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.connect import CheckpointStore, Runner, sink, source
from gapless.connect.backlog import Backlog
from gapless.errors import CoverageOverlap, LogWarning
from gapless.testing.store.stores import Killed
from support.faulty_store import is_commit, once, open_faulty, unavailable
from support.pipelines import KINDS, made, opened, rows


@pytest.fixture
def location() -> str:
    return f"memory://{uuid.uuid4()}"


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="gapless")


def said(caplog: pytest.LogCaptureFixture, logger: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == logger]


def test_a_conflict_after_which_a_change_is_made_again(location: str, caplog: pytest.LogCaptureFixture) -> None:
    made("timeseries", location).append(rows(0, 4))
    table, store = open_faulty(location)
    store.before_put = once(lambda: opened("timeseries", location).delete("v < 2"), is_commit)
    table.delete("v < 3")
    again = [text for text in said(caplog, "gapless.runtime") if "is made again for the newest version" in text]
    assert len(again) == 1
    assert again[0].startswith(f"{location}: version 3 came first and clashes")
    assert opened("timeseries", location).count() == 1


def test_a_log_checkpoint_that_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", schema=rows(0, 0).schema, properties={"checkpoint_interval": 2})
    table.append(rows(0, 4))
    (damaged,) = (tmp_path / "t" / "_timeseries_log").glob("*.checkpoint.parquet")
    damaged.write_bytes(b"what?")
    with pytest.warns(LogWarning):
        assert gl.open(tmp_path / "t").count() == 4
    (text,) = said(caplog, "gapless.log")
    assert str(tmp_path / "t") in text


def test_an_outcome_that_was_not_known_and_is_found_out(location: str, caplog: pytest.LogCaptureFixture) -> None:
    made("timeseries", location)
    table, store = open_faulty(location)
    store.after_put = once(lambda: unavailable("the commit"), is_commit)
    table.append(rows(0, 4))
    unknown, found = said(caplog, "gapless.runtime")
    assert "is not known, and is looked for" in unknown
    assert found.endswith("0000000002.json is: committed")


def test_files_of_a_change_that_is_not_committed(location: str, caplog: pytest.LogCaptureFixture) -> None:
    table = made("timeseries", location)
    stale = opened("timeseries", location)
    table.append(rows(0, 4))
    with pytest.raises(CoverageOverlap):
        stale.append(rows(0, 4))
    assert set(said(caplog, "gapless.files")) == {f"{location}: 1 file(s) of a change that is not committed are removed"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_vacuum_deleted(kind: str, location: str, caplog: pytest.LogCaptureFixture) -> None:
    table = made(kind, location)
    table.append(rows(0, 4))
    table.vacuum(dry_run=True)
    assert said(caplog, "gapless.tables") == []
    report = table.vacuum(older_than=timedelta(days=30), dry_run=False)
    assert said(caplog, "gapless.tables") == [f"{location}: vacuum deleted 0 files (0 bytes) and kept {len(report.entries)}"]


def test_a_pipeline_that_goes_on_after_a_crash(
    location: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made("timeseries", f"{location}-feed").append(rows(0, 4))
    made("timeseries", f"{location}-sink")

    def pipeline() -> Runner:
        return Runner(
            source(f"timeseries:{location}-feed", start="earliest"),
            None,
            {"main": sink(f"timeseries:{location}-sink", pipeline="p", name="main", mode="append")},
            CheckpointStore(f"{location}-checkpoints"),
        )

    def dies(*_: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Backlog, "finalize", dies)
        with pytest.raises(Killed):
            pipeline().run()
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointStore, "decide", dies)
        made_more = opened("timeseries", f"{location}-feed")
        made_more.append(rows(4, 4))
        with pytest.raises(Killed):
            pipeline().run()
    pipeline().run()
    texts = said(caplog, "gapless.connect")
    assert ["was decided and not finished" in text or "was prepared and not decided" in text for text in texts] == [True, True]
    assert opened("timeseries", f"{location}-sink").count() == 8


def test_each_folder_tells_the_logger_of_its_layer() -> None:
    """But for `runtime/environment.py`, which also tells what the log decided, and silences all of them, and commands, which show them."""
    root = Path(str(gl.__file__)).parent
    named = [
        (path.relative_to(root).parts[0], name)
        for path in root.rglob("*.py")
        for name in re.findall(r'getLogger\("([^"]*)"\)', path.read_text(encoding="utf-8"))
        if path.name != "environment.py" and path.relative_to(root).parts[0] != "cli"
    ]
    assert {"connect", "tables", "runtime"} <= {folder for folder, _ in named}
    assert [one for one in named if one[1] != f"gapless.{one[0]}"] == []


def test_without_a_handler_nothing_is_printed(tmp_path: Path) -> None:
    script = f"""
import gapless as gl, logging, warnings
from datetime import datetime
warnings.simplefilter("ignore")
table = gl.create({str(tmp_path / "t")!r}, index="ts", bucket="1h", properties={{"checkpoint_interval": 2}})
table.append({{"ts": [datetime(2026, 1, 5)], "v": [1]}})
for path in __import__("pathlib").Path({str(tmp_path / "t")!r}).glob("_timeseries_log/*.checkpoint.parquet"):
    path.write_bytes(b"what?")
gl.open({str(tmp_path / "t")!r})
table.vacuum(dry_run=False)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
