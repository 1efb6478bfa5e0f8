"""An S3 server whose answers are lost on the way, or lie: an append is one commit or CommitOutcomeUnknown, and its rows are there once."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

import pytest

from gapless.errors import AccessDenied, CommitOutcomeUnknown, StoreError, StoreUnavailable
from gapless.model.operation import AppendReport
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.timeseries.lifecycle import open_table
from gapless.tables.timeseries.table import TimeSeriesTable
from process.flaky_proxy import CLIENT_TIMEOUT_S, Fault, Faults, flaky_proxy
from process.ledger import Append, Place, check, make_table, open_at, rows_of

RETRIES = 2
"""What obstore sends again by itself."""
DEADLINE_S = 12.0
THERE: Append = ("w", 0)
VICTIM: Append = ("w", 1)
AFTER: Append = ("w", 2)

Proxy = tuple[str, Faults]


@pytest.fixture(scope="module")
def proxy(s3_server: str) -> Iterator[Proxy]:
    with flaky_proxy(s3_server) as running:
        yield running


@pytest.fixture
def direct(s3_options: tuple[str, dict[str, str]]) -> Place:
    """The table with one append, reached without the proxy."""
    place = f"{s3_options[0]}/table", s3_options[1]
    make_table(place).append(rows_of(THERE), operation_id=THERE)
    return place


def _through(direct: Place, proxy: Proxy, *, deadline_s: float = DEADLINE_S) -> TimeSeriesTable:
    """A handle that reaches the table by the proxy, soon tired of waiting."""
    retry = {"max_retries": str(RETRIES), "retry_timeout": "10", "timeout": f"{CLIENT_TIMEOUT_S}s"}
    store = open_store(direct[0], {**direct[1], "endpoint": proxy[0], **retry})
    env = Environment(store=store, deadline_s=deadline_s)
    return TimeSeriesTable(env, direct[0], open_table(env, direct[0]))


def _is_commit(method: str, path: str) -> bool:
    return method == "PUT" and re.search(r"/_timeseries_log/\d{10}\.json", path) is not None


def _is_segment(method: str, path: str) -> bool:
    return method == "PUT" and path.partition("?")[0].endswith(".parquet") and "/data/" in path


def _append(table: TimeSeriesTable) -> AppendReport | StoreError | CommitOutcomeUnknown:
    try:
        return table.append(rows_of(VICTIM), operation_id=VICTIM)
    except (StoreError, CommitOutcomeUnknown) as error:
        return error


def _settle(direct: Place, faults: Faults, outcome: object) -> bool:
    """Whether the victim is there, which must agree with the outcome; sent again it is there once, and the table is written to."""
    faults.settle()
    landed = VICTIM in check(direct, [THERE], [VICTIM]).present
    if isinstance(outcome, AppendReport):
        assert landed
        assert outcome.version == 3
    elif not isinstance(outcome, CommitOutcomeUnknown):
        assert not landed, f"{outcome!r} says that nothing was written"
    table = open_at(direct)
    assert table.append(rows_of(VICTIM), operation_id=VICTIM).already_applied is landed
    table.append(rows_of(AFTER))
    check(direct, [THERE, VICTIM, AFTER])
    return landed


_AFTER: list[Fault] = ["500 after", "503 after", "reset after", "cut after", "silence after"]
_BEFORE: list[Fault] = ["503 before", "409 before", "412 before", "reset before", "late"]


@pytest.mark.parametrize("times", [1, pytest.param(RETRIES + 1, marks=pytest.mark.long), RETRIES + 2])
@pytest.mark.parametrize("fault", [*_AFTER, *_BEFORE])
def test_an_answer_to_a_commit_that_is_lost(direct: Place, proxy: Proxy, fault: Fault, times: int) -> None:
    """Once (obstore sends again and is told that ours exists), as often as obstore asks, and once more."""
    table = _through(direct, proxy)
    proxy[1].plan(_is_commit, [fault] * times)
    outcome = _append(table)
    assert isinstance(outcome, AppendReport), outcome
    assert not outcome.already_applied
    assert proxy[1].seen
    assert _settle(direct, proxy[1], outcome)
    assert table.refresh().version == 4


@pytest.mark.parametrize("times", [1, RETRIES + 1])
@pytest.mark.parametrize("fault", [*_AFTER, "503 before", "reset before", "late"])
def test_an_answer_to_a_segment_that_is_lost(direct: Place, proxy: Proxy, fault: Fault, times: int) -> None:
    table = _through(direct, proxy)
    proxy[1].plan(_is_segment, [fault] * times)
    outcome = _append(table)
    assert len(proxy[1].seen) == times
    assert isinstance(outcome, AppendReport if times == 1 else StoreUnavailable), outcome
    assert _settle(direct, proxy[1], outcome) is (times == 1)


@pytest.mark.parametrize("fault", ["503 before", "reset before", "412 before", "late"])
def test_a_commit_that_never_gets_an_answer_is_unknown(direct: Place, proxy: Proxy, fault: Fault) -> None:
    table = _through(direct, proxy, deadline_s=1.0)
    proxy[1].plan(_is_commit, [fault] * 1000)
    outcome = _append(table)
    assert isinstance(outcome, CommitOutcomeUnknown), outcome
    assert outcome.version == 3
    assert outcome.commit_id in outcome.fix
    assert _settle(direct, proxy[1], outcome) is (fault == "late"), "nothing was deleted that could still land"


def test_reading_back_fails_too(direct: Place, proxy: Proxy) -> None:
    """No answer to the put, and none when it is looked for: nothing is known, and nothing deleted."""
    table = _through(direct, proxy, deadline_s=1.0)
    seen: list[str] = []

    def commit_and_then_its_read(method: str, path: str) -> bool:
        if "/0000000003.json" not in path or not (seen or method == "PUT"):
            return False
        seen.append(method)
        return True

    faults: list[Fault] = ["503 before"] * 1000
    proxy[1].plan(commit_and_then_its_read, ["reset after", *faults])
    outcome = _append(table)
    assert isinstance(outcome, CommitOutcomeUnknown), outcome
    assert "GET" in seen
    assert _settle(direct, proxy[1], outcome)


@pytest.mark.parametrize("first", [*_AFTER, "late"])
def test_credentials_that_expire_after_a_lost_answer(direct: Place, proxy: Proxy, first: Fault) -> None:
    """Where obstore sends again by itself and is refused, the refusal says nothing of the first try, whose segments must stay."""
    table = _through(direct, proxy)
    proxy[1].plan(_is_commit, [first, "403 before"])
    outcome = _append(table)
    assert not isinstance(outcome, AccessDenied), "the first try may have landed"
    assert proxy[1].seen[0] == first
    assert _settle(direct, proxy[1], outcome)


def test_credentials_that_are_refused_at_once(direct: Place, proxy: Proxy) -> None:
    table = _through(direct, proxy)
    proxy[1].plan(_is_commit, ["403 before"])
    outcome = _append(table)
    assert isinstance(outcome, AccessDenied)
    assert not _settle(direct, proxy[1], outcome)
    assert check(direct, [THERE, VICTIM, AFTER]).orphans == ()


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 100), marks=pytest.mark.soak)], ids=["4", "96"])
def test_any_faults_in_any_order(s3_options: tuple[str, dict[str, str]], proxy: Proxy, seeds: range) -> None:
    anywhere: list[Fault] = [*_AFTER, "503 before", "reset before", "late", "403 before"]
    ends: dict[str, int] = {}
    for seed in seeds:
        dice = random.Random(seed)
        direct: Place = f"{s3_options[0]}/{seed}", s3_options[1]
        make_table(direct).append(rows_of(THERE), operation_id=THERE)
        table = _through(direct, proxy, deadline_s=6.0)
        commits_only = dice.random() < 0.5
        # Only a conditional put is refused by 409 and 412.
        kinds: list[Fault] = [*anywhere, "409 before", "412 before"] if commits_only else anywhere
        proxy[1].plan(_some(dice, commits_only=commits_only), dice.choices(kinds, k=dice.randrange(1, 9)))
        outcome = _append(table)
        name = type(outcome).__name__
        ends[name] = ends.get(name, 0) + 1
        try:
            _settle(direct, proxy[1], outcome)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {name}, faults {proxy[1].seen}") from error
    print(f"{len(seeds)} appends over a flaky connection: {ends}; each victim there once at the end")


def _some(dice: random.Random, *, commits_only: bool) -> Callable[[str, str], bool]:
    """Matches a third to all of the puts of commits, or of all requests below data/ and for commits."""
    share = dice.choice([0.3, 0.6, 1.0])

    def matches(method: str, path: str) -> bool:
        among = _is_commit(method, path) if commits_only else ("/data/" in path or "/_timeseries_log/0" in path)
        return among and dice.random() < share

    return matches
