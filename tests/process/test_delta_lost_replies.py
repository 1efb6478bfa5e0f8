"""A Delta table on an S3 server whose answers are lost on the way: an append is one commit or unknown, and its rows are there once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from gapless.errors import CommitOutcomeUnknown, StoreError, StoreUnavailable
from gapless.model.operation import AppendReport
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.delta.lifecycle import open_table
from gapless.tables.delta.table import DeltaTable
from process.delta_ledger import check_delta, make_delta, open_delta
from process.flaky_proxy import CLIENT_TIMEOUT_S, Fault, Faults, flaky_proxy
from process.ledger import Append, Place, rows_of

RETRIES = 2
THERE: Append = ("w", 0)
VICTIM: Append = ("w", 1)
AFTER: Append = ("w", 2)
_AFTER: list[Fault] = ["500 after", "503 after", "reset after", "cut after", "silence after"]
_BEFORE: list[Fault] = ["503 before", "409 before", "412 before", "reset before", "late"]

Proxy = tuple[str, Faults]


@pytest.fixture(scope="module")
def proxy(s3_server: str) -> Iterator[Proxy]:
    with flaky_proxy(s3_server) as running:
        yield running


@pytest.fixture
def direct(s3_options: tuple[str, dict[str, str]]) -> Place:
    """The table with one append, reached without the proxy."""
    place = f"{s3_options[0]}/table", s3_options[1]
    make_delta(place).append(rows_of(THERE), operation_id=THERE)
    return place


def _through(direct: Place, proxy: Proxy, *, deadline_s: float = 12.0) -> DeltaTable:
    retry = {"max_retries": str(RETRIES), "retry_timeout": "10", "timeout": f"{CLIENT_TIMEOUT_S}s"}
    store = open_store(direct[0], {**direct[1], "endpoint": proxy[0], **retry})
    env = Environment(store=store, deadline_s=deadline_s)
    return DeltaTable(env, "table", open_table(env, direct[0]))


def _is_commit(method: str, path: str) -> bool:
    return method == "PUT" and re.search(r"/_delta_log/\d{20}\.json", path) is not None


def _is_data(method: str, path: str) -> bool:
    return method == "PUT" and path.partition("?")[0].endswith(".parquet") and "/_delta_log/" not in path


def _append(table: DeltaTable, *, named: bool) -> AppendReport | StoreError | CommitOutcomeUnknown:
    try:
        return table.append(rows_of(VICTIM), operation_id=VICTIM if named else None)
    except (StoreError, CommitOutcomeUnknown) as error:
        return error


def _settle(direct: Place, faults: Faults, outcome: object, *, named: bool) -> bool:
    """Whether the victim is there, which must agree with the outcome; where it has a name and is sent again, it is there once."""
    faults.settle()
    landed = VICTIM in check_delta(direct, [THERE], [VICTIM]).present
    if isinstance(outcome, AppendReport):
        assert landed
        assert outcome.version == 2
    elif not isinstance(outcome, CommitOutcomeUnknown):
        assert not landed, f"{outcome!r} says that nothing was written"
    if named:
        assert open_delta(direct).append(rows_of(VICTIM), operation_id=VICTIM).already_applied is landed
    open_delta(direct).append(rows_of(AFTER))
    check_delta(direct, [THERE, AFTER, *([VICTIM] if named or landed else [])])
    return landed


@pytest.mark.parametrize("named", [True, False], ids=["named", "without a name"])
@pytest.mark.parametrize("fault", [*_AFTER, *_BEFORE])
def test_an_answer_to_a_delta_commit_that_is_lost(direct: Place, proxy: Proxy, fault: Fault, *, named: bool) -> None:
    """deltalake commits twice where the server says 500 after the write landed (../shared/reference/libraries.md)."""
    table = _through(direct, proxy)
    proxy[1].plan(_is_commit, [fault] * (RETRIES + 1))
    outcome = _append(table, named=named)
    assert isinstance(outcome, AppendReport), outcome
    assert not outcome.already_applied
    assert proxy[1].seen
    assert _settle(direct, proxy[1], outcome, named=named)


@pytest.mark.parametrize("fault", ["500 after", "reset before", "late"])
def test_an_answer_to_a_delta_data_file_that_is_lost(direct: Place, proxy: Proxy, fault: Fault) -> None:
    table = _through(direct, proxy)
    proxy[1].plan(_is_data, [fault] * (RETRIES + 1))
    outcome = _append(table, named=True)
    assert isinstance(outcome, StoreUnavailable), outcome
    assert not _settle(direct, proxy[1], outcome, named=True)


@pytest.mark.parametrize("fault", ["503 before", "late"])
def test_a_delta_commit_that_never_gets_an_answer_is_unknown(direct: Place, proxy: Proxy, fault: Fault) -> None:
    table = _through(direct, proxy, deadline_s=1.0)
    proxy[1].plan(_is_commit, [fault] * 1000)
    outcome = _append(table, named=True)
    assert isinstance(outcome, CommitOutcomeUnknown), outcome
    assert outcome.version == 2
    assert _settle(direct, proxy[1], outcome, named=True) is (fault == "late"), "nothing was deleted that could still land"
