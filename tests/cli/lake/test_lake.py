"""`gapless lake`: a lake filled by pipelines of its lake.toml, looked at and looked after."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from cli.conftest import Gapless
from gapless.cli.app import LAKE_COMMANDS, load_command
from support.http_service import Service
from support.lake_catalogs import PASSWORD, url_of
from support.postgres import Postgres

PIPELINES = """
[[pipeline]]
name = "sales"
table = "sales"
source = "files:in/*.csv"
key = ["id"]
table_options = { partition_by = ["id"] }
"""


def document(gapless: Gapless, *words: object, cwd: Path, code: int = 0) -> Any:
    ended = gapless("lake", *words, "--json", cwd=cwd)
    assert ended.code == code, ended.err
    return json.loads(ended.out)


@pytest.fixture
def place(tmp_path: Path, inside: Gapless) -> Path:
    assert inside("lake", "init", "books", cwd=tmp_path).code == 0
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("id,v\n1,a\n2,b\n")
    with (tmp_path / "books/lake.toml").open("a") as config:
        config.write(PIPELINES)
    return tmp_path


def test_a_lake_from_its_pipelines_to_a_snapshot(place: Path, inside: Gapless) -> None:
    assert document(inside, "run", "books", cwd=place)["sales"]["rows"] == 2
    (place / "in/b.csv").write_text("id,v\n2,c\n")
    told = inside("lake", "run", "books", "sales", cwd=place)
    assert told.out.startswith("sales: 1 row into sales")
    assert document(inside, "query", "books", "SELECT * FROM sales ORDER BY id", cwd=place) == [
        {"id": 1, "v": "a"},
        {"id": 2, "v": "c"},
    ]
    (table,) = document(inside, "tables", "books", cwd=place)
    assert (table["table"], table["key"], table["runs"], table["snapshots"]) == ("sales", ["id"], 2, 0)
    assert [one["rows"] for one in document(inside, "runs", "books", "sales", cwd=place)] == [2, 1]
    assert document(inside, "lineage", "books", "sales", cwd=place)[0]["source"].startswith("files:")
    made = document(inside, "compact", "books", "sales", "--expire", cwd=place)
    assert (made["runs"], made["rows"], made["expired"]["runs"]) == (2, 2, 0)
    (snapshot,) = document(inside, "snapshot", "books", "sales", cwd=place)
    assert (snapshot["complete"], snapshot["files"]) == (True, 2)
    assert document(inside, "doctor", "books", "--deep", cwd=place) == []
    next((place / "books").rglob("part-*.parquet")).unlink()
    (found,) = document(inside, "doctor", "books", cwd=place, code=1)
    assert found["code"] == "file-missing"
    assert "Problem [file-missing]" in inside("lake", "doctor", "books", cwd=place).out


def test_a_snapshot_is_exported(place: Path, inside: Gapless) -> None:
    inside("lake", "run", "books", cwd=place)
    ended = inside("lake", "export", "books", "sales", "--as", "delta", cwd=place)
    assert (ended.code, "gapless lake compact" in ended.err) == (2, True)
    document(inside, "compact", "books", "sales", cwd=place)
    assert inside("lake", "export", "books", "sales", "--as", "hudi", cwd=place).code == 2
    done = document(inside, "export", "books", "sales", "--as", "delta", cwd=place)
    assert (done["version"], done["rows"], done["changed"]) == (0, 2, True)
    name = done["snapshot"]
    told = inside("lake", "export", "books", "sales", "--as", "delta", "--snapshot", name, cwd=place)
    assert told.out.endswith("as before.\n")
    assert json.loads(inside("delta", "scan", done["path"], "--json", cwd=place).out) == [
        {"id": 1, "v": "a"},
        {"id": 2, "v": "b"},
    ]
    (place / "books/tables/sales/_delta_log/00000000000000000001.json").write_text('{"commitInfo":{}}\n')
    refused = inside("lake", "export", "books", "sales", "--as", "delta", cwd=place)
    assert (refused.code, "--mend" in refused.err) == (1, True)
    assert document(inside, "doctor", "books", cwd=place, code=1)[0]["code"] == "export-differs"
    assert document(inside, "export", "books", "sales", "--as", "delta", "--mend", cwd=place)["version"] == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("keyy = 1", "Did you mean 'key'"),
        ("engine = 'spork'", "Did you mean 'spark'"),
        ("engine = 'spark'", "{format = 'parquet', path = 'landing/'}"),
        ("options = 3", "another type"),
        ("options = { headers = { Authorization = 'Bearer ${NOT_THERE}' } }", "NOT_THERE"),
        ("options = { pagination = { type = 'PageTokn' } }", "PageToken"),
    ],
)
def test_what_a_pipeline_has_not_is_refused_by_name(place: Path, inside: Gapless, line: str, told: str) -> None:
    config = place / "books/lake.toml"
    config.write_text(config.read_text().partition("table_options")[0] + line + "\n")
    ended = inside("lake", "run", "books", cwd=place)
    assert (ended.code, told in ended.err) == (2, True), ended.err
    assert inside("lake", "run", "books", "salez", cwd=place).code == 2


def test_secrets_of_a_pipeline_are_in_no_file_and_no_message(
    place: Path, inside: Gapless, http_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2")
    pages = {"": ([{"id": 1}], "p2"), "p2": ([{"id": 2}], None)}

    def answer(_path: str, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        rows, follows = pages[query.get("token", "")]
        return 200, {}, json.dumps({"rows": rows, "next": follows}).encode()

    http_service.answer = answer
    config = place / "books/lake.toml"
    config.write_text(
        config.read_text().partition("[[pipeline]]")[0]
        + f"""[[pipeline]]
name = "api"
table = "api"
source = "{http_service.url}"
options.records = "rows"
options.headers = {{ Authorization = "Bearer ${{API_TOKEN}}" }}
options.pagination = {{ type = "PageToken", parameter = "token", path = "next" }}
"""
    )
    assert document(inside, "run", "books", cwd=place)["api"]["rows"] == 2
    assert http_service.asked[0][2]["Authorization"] == "Bearer hunter2"
    http_service.failures += [(401, {}, b"hunter2 is wrong")]
    failed = inside("lake", "run", "books", cwd=place)
    assert (failed.code, "hunter2" in failed.err) == (1, False)
    assert [path for path in (place / "books").rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()] == []


def test_an_api_whose_records_change_is_the_business_of_the_tables_policy(
    place: Path, inside: Gapless, http_service: Service
) -> None:
    pages: list[list[dict[str, Any]]] = [
        [{"id": 1, "n": 1}],
        [{"id": 2, "n": 2, "more": "x"}],
        [{"id": 3, "n": 2.5}],
        [{"id": 4, "n": None, "odd": {"a": 1}}],
    ]

    def answer(_path: str, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        since = int(query.get("since", "0"))
        return 200, {}, json.dumps(next((page for page in pages if page[0]["id"] > since), [])).encode()

    http_service.answer = answer
    config = place / "books/lake.toml"
    config.write_text(
        config.read_text().partition("[[pipeline]]")[0]
        + f"""[[pipeline]]
name = "api"
table = "api"
source = "{http_service.url}"
options.pagination = {{ type = "AfterValue", parameter = "since", column = "id" }}
"""
    )
    assert document(inside, "run", "books", cwd=place)["api"]["rows"] == 4
    pages.append([{"id": 5, "n": 3, "later": True}])
    assert document(inside, "run", "books", cwd=place)["api"]["rows"] == 1
    rows = gl.lake.open(place / "books").query("SELECT id, n, more, odd, later FROM api ORDER BY id").to_arrow().to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (1, 1.0, None, None, None),
        (2, 2.0, "x", None, None),
        (3, 2.5, None, None, None),
        (4, None, None, {"a": 1}, None),
        (5, 3.0, None, None, True),
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("every = '15m'", 'schedule = "every 15m"'),
        ("cron = '* * * * *'", 'schedule = "0 3 * * *"'),
        ("schedule = 'every 15 parsecs'", "Did you mean"),
        ("schedule = '99 * * * *'", "cron expression"),
        ("schedule = '0 3 * * *'\ntimezone = 'Europe/Berln'", "Europe/Berlin"),
        ("timezone = 'Europe/Berlin'", "no schedule"),
        ("schedule = 'every 15m'\ntimezone = 'Europe/Berlin'", "interval has no timezone"),
    ],
)
def test_a_schedule_that_is_none_is_refused(place: Path, inside: Gapless, line: str, told: str) -> None:
    with (place / "books/lake.toml").open("a") as config:
        config.write(line + "\n")
    ended = inside("lake", "schedule", "books", "--once", cwd=place)
    assert (ended.code, told in " ".join(ended.err.split())) == (2, True), ended.err


def test_what_is_due_is_run_once(place: Path, inside: Gapless) -> None:
    config = place / "books/lake.toml"
    config.write_text(
        config.read_text()
        + 'schedule = "every 300d"\n[[pipeline]]\nname = "other"\ntable = "other"\nsource = "files:other/*.csv"\nschedule = "@yearly"\n'
    )
    (place / "other").mkdir()
    (place / "other/a.csv").write_text('id\n"torn\n')
    told = document(inside, "schedule", "books", "--once", cwd=place, code=1)
    assert (told["ran"]["sales"]["rows"], told["failed"], sorted(told["due"])) == (
        2,
        {"other": "unreadable-input"},
        ["other", "sales"],
    )
    (place / "other/a.csv").write_text("id\n1\n")
    again = inside("lake", "schedule", "books", "--once", cwd=place)
    assert (again.code, again.out.startswith("other: 1 row into other"), "sales is due at 2" in again.out) == (0, True, True)
    assert document(inside, "schedule", "books", "--once", cwd=place)["ran"] == {}
    assert inside("lake", "schedule", "books", "--json", cwd=place).code == 2


def test_pipelines_are_run_until_ctrl_c(place: Path, environment: dict[str, str]) -> None:
    with (place / "books/lake.toml").open("a") as config:
        config.write('schedule = "every 1h"\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "gapless", "lake", "schedule", "books"],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=place,
    )
    assert process.stderr is not None
    try:
        assert "sales: every 1:00:00" in process.stderr.readline()
        assert "of sales: 2 rows, complete" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.stderr.close()


def test_one_plan_as_json_is_run(place: Path, inside: Gapless) -> None:
    plan = {"name": "other", "table": "other", "source": "files:in/*.csv", "key": ["id"]}
    (place / "plan.json").write_text(json.dumps(plan))
    assert document(inside, "run", "books", "--plan", "plan.json", cwd=place)["other"]["rows"] == 2
    assert document(inside, "run", "books", "--plan", "plan.json", cwd=place)["other"]["rows"] == 0
    assert [one["table"] for one in document(inside, "tables", "books", cwd=place)] == ["other"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"name": "a", "table": "a", "source": "files:in/*.csv", "keyy": 1}', "Did you mean 'key'"),
        ('{"name": "a", "table": "a"}', "lacks 'source'"),
        ('{"name": "a", "table": "a", "source": "files:in/*.csv", "schedule": "every 1h"}', "run once"),
        ('{"name": "a", "table": 3, "source": "files:in/*.csv"}', "another type"),
        ("[]", "no object"),
        ("{", "no JSON"),
    ],
)
def test_a_plan_that_is_none_is_refused(place: Path, inside: Gapless, text: str, told: str) -> None:
    (place / "plan.json").write_text(text)
    ended = inside("lake", "run", "books", "--plan", "plan.json", cwd=place)
    assert (ended.code, told in " ".join(ended.err.split())) == (2, True), ended.err


def test_a_plan_and_names_do_not_go_together(place: Path, inside: Gapless) -> None:
    assert inside("lake", "run", "books", "sales", "--plan", "none.json", cwd=place).code == 2
    assert "cannot be read" in inside("lake", "run", "books", "--plan", "none.json", cwd=place).err


def test_the_list_of_commands_says_what_each_one_says_first() -> None:
    for name, (module, summary) in LAKE_COMMANDS.items():
        text = " ".join((load_command(module, name).__doc__ or "").split())
        assert text.startswith(summary), name


def test_a_run_shows_how_it_gets_on_where_stderr_is_a_terminal(place: Path, environment: dict[str, str]) -> None:
    terminal, other_end = pty.openpty()
    fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    ended = subprocess.run(
        [sys.executable, "-m", "gapless", "lake", "run", "books"],
        cwd=place, env=environment | {"TERM": "xterm"}, stdout=subprocess.PIPE, stderr=other_end, text=True, check=True,
    )  # fmt: skip
    os.close(other_end)
    shown = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert re.search(r"sales .*2 rows, 1 page, 0 files, [\d,]+ rows/s, cursor \{.source.: .files.", shown), shown
    assert ended.stdout.startswith("sales: 2 rows into sales (run ")
    assert ended.stdout.count("\n") == 1


def test_a_catalog_in_postgresql(postgres: Postgres, tmp_path: Path, inside: Gapless, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD, "s3cret")
    made = inside("lake", "init", "books", "--catalog", url_of(postgres), "--json", cwd=tmp_path)
    assert made.code == 0, made.err
    lake = gl.lake.open(tmp_path / "books")
    lake.create_table("t")
    lake.run("t", [{"a": 1}])
    assert document(inside, "lineage", "books", "t", cwd=tmp_path)[0]["rows"] == 1
    assert not (tmp_path / "books/meta.sqlite").exists()
    refused = inside("lake", "init", "other", "--catalog", "postgresql://u:hunter2@h/d", cwd=tmp_path)
    assert (refused.code, "hunter2" in refused.err) == (2, False)
