"""Known bugs of the commit conversation, planted from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gapless.formats.delta.format import Delta
from gapless.formats.timeseries.actions import Commit
from gapless.formats.timeseries.format import TimeSeries
from gapless.log.commit import Outcome, commit
from gapless.log.effects import Conversation as Talk
from gapless.log.effects import Get, Put, PutHint, PutNew, Request, perform
from gapless.log.format import ConflictChecker
from gapless.runtime import committer

Plant = Callable[[pytest.MonkeyPatch], None]
Conversation = Callable[..., Talk[Any]]


def twisted(conversation: Talk[Any], twist: Callable[[Request[Any], Any], Any]) -> Talk[Any]:
    """The same conversation, with answers changed on their way."""
    try:
        request = next(conversation)
        while True:
            try:
                reply = yield request
            except Exception as error:  # noqa: BLE001 - thrown on
                request = conversation.throw(error)
            else:
                request = conversation.send(twist(request, reply))
    except StopIteration as end:
        return end.value


def _commits_with(monkeypatch: pytest.MonkeyPatch, conversation: Conversation) -> None:
    monkeypatch.setattr(committer, "commit", conversation)


def _answers(monkeypatch: pytest.MonkeyPatch, wrong: Put, believed: Put) -> None:
    def twist(request: Request[Any], reply: Any) -> Any:
        return believed if isinstance(request, PutNew) and reply is wrong else reply

    _commits_with(monkeypatch, lambda *arguments, **named: twisted(commit(*arguments, **named), twist))


def skip_the_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer to the put is taken for a commit."""
    _answers(monkeypatch, Put.NO_ANSWER, Put.DONE)


def take_exists_for_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """ "It exists" is taken for "ours exists"."""
    _answers(monkeypatch, Put.REFUSED, Put.DONE)


class _NoAnswerError(Exception):
    pass


def _upon_no_answer(again: Callable[..., Talk[Any]]) -> Conversation:
    """The conversation, which starts again in another way as soon as a put gets no answer."""

    def broken(
        dialect: Any, base: int, time_ns: int, entry: Commit, check_conflict: ConflictChecker[Commit], **named: Any
    ) -> Talk[Any]:
        asked: list[int] = []

        def twist(request: Request[Any], reply: Any) -> Any:
            if isinstance(request, PutNew) and reply is Put.NO_ANSWER:
                asked.append(dialect.version_of(request.path))
                raise _NoAnswerError
            return reply

        try:
            talk = commit(dialect, base, time_ns, entry, check_conflict, written=named["written"])
            return (yield from twisted(talk, twist))
        except _NoAnswerError:
            return (yield from again(dialect, asked[0], time_ns, entry, check_conflict))

    return broken


def retry_one_version_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """After no answer at N the put goes to N + 1, if the version N is there."""

    def again(
        dialect: Any, version: int, time_ns: int, entry: Commit, check_conflict: ConflictChecker[Commit]
    ) -> Talk[Outcome[Commit]]:
        there = yield from perform(Get(dialect.path_of(version)))
        return (yield from commit(dialect, version if there else version - 1, time_ns, entry, check_conflict))

    _commits_with(monkeypatch, _upon_no_answer(again))


def append_again_after_a_lost_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is taken for a failure, and the commit made again under a new id."""

    def again(
        dialect: Any, version: int, time_ns: int, entry: Commit, check_conflict: ConflictChecker[Commit]
    ) -> Talk[Outcome[Commit]]:
        fresh = replace(entry, id=entry.id[:-1] + ("0" if entry.id[-1] != "0" else "1"))
        return (yield from commit(dialect, version - 1, time_ns, fresh, check_conflict))

    _commits_with(monkeypatch, _upon_no_answer(again))


def hint_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """CURRENT is moved on before the commit is made."""

    def broken(
        dialect: Any, base: int, time_ns: int, entry: Commit, check_conflict: ConflictChecker[Commit], **named: Any
    ) -> Talk[Outcome[Commit]]:
        yield from perform(PutHint(dialect.hint, b"%d\n" % (base + 1)))
        return (yield from commit(dialect, base, time_ns, entry, check_conflict, written=named["written"]))

    _commits_with(monkeypatch, broken)


def rebase_on_the_last_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebase over several commits looks at the last of them alone."""

    def broken(
        dialect: Any, base: int, time_ns: int, entry: Commit, check_conflict: ConflictChecker[Commit], **named: Any
    ) -> Talk[Outcome[Commit]]:
        version = base
        while (yield from perform(Get(dialect.path_of(version + 2)))) is not None:
            version += 1
            last = yield from perform(Get(dialect.path_of(version)))
            time_ns = dialect.decode(last, version)[1]
        return (yield from commit(dialect, version, time_ns, entry, check_conflict, written=named["written"]))

    _commits_with(monkeypatch, broken)


def overlook_vacuums_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit does not ask whether a vacuum which came first, since its version or before, deletes its files."""
    monkeypatch.setattr(TimeSeries, "vacuumed", lambda *_arguments: None)
    monkeypatch.setattr(Delta, "vacuumed", lambda *_arguments: None)
