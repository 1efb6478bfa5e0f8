"""The auditor: what must be true of a table after any simulated history."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.testing.audit_log import Ledger, Logged
from gapless.testing.audit_sent import check_sent, parts_of
from gapless.testing.history import History, Missed, Seen, Sent
from gapless.testing.intents import COLUMNS, Appending, Bucket, Caring, Replacing, Restoring, Rows, Upserting, buckets_of


def audit(ledger: Ledger, history: History, *, deadline_s: float) -> list[str]:
    """Everything that is wrong, a sentence each; nothing where the history and the log agree.

    `ledger` is the log as it was read once nothing was under way any more.
    """
    found = [*history.mishaps, *ledger.faults, *_check_commits(ledger, history), *_check_once(ledger)]
    for sent in history.sent:
        found += (f"{_name(sent)}: {fault}" for fault in check_sent(sent, ledger, deadline_s))
    for seen in history.seen:
        found += (f"{seen.actor} saw version {seen.version}: {fault}" for fault in _check_seen(seen, ledger, history))
    for missed in history.missed:
        found += (f"{missed.actor} missed version {missed.version}: {fault}" for fault in _check_missed(missed, ledger))
    return found


def _name(sent: Sent) -> str:
    return f"{sent.actor}'s {sent.intent} was {sent.outcome}"


def _check_commits(ledger: Ledger, history: History) -> Iterator[str]:
    """After each commit the table holds what its senders wanted, applied to what it held before."""
    if len({commit.id for commit in ledger.commits.values()}) < len(ledger.commits):
        yield "two commits have one id"
    spared = frozenset[Bucket]()
    for version, commit in ledger.commits.items():
        senders = [sent for sent in history.sent if commit.id in sent.ids]
        if not senders and version > ledger.first:
            yield f"no one sent version {version} ({commit.operation})"
        wanted, fault = _replay(commit, history, ledger)
        yield from fault
        if commit.rows != wanted:
            yield f"version {version} ({commit.operation}) holds {commit.rows} after {commit.before}, and should hold {wanted}"
        if version > ledger.first and commit.landed.columns != (columns := _columns_after(commit, history, ledger)):
            yield f"version {version} ({commit.operation}) has the columns {commit.landed.columns}, and should have {columns}"
        spared |= _allowed(senders)
        if twice := sorted(commit.doubled - spared):
            yield f"version {version} ({commit.operation}) covers {twice} by two segments"


def _replay(commit: Logged, history: History, ledger: Ledger) -> tuple[Rows, list[str]]:
    """The rows that a commit should leave, and what its senders may not have wanted."""
    unseen = set(commit.unseen)
    rows, faults = tuple(row for row in commit.before if row not in unseen), []
    for intent in parts_of(commit, history):
        twice = sorted(buckets_of(rows) & buckets_of(intent.rows))
        if isinstance(intent, Appending) and intent.on_overlap == "reject" and twice:
            faults.append(f"version {commit.version} (reject) covers {twice} twice")
        rows = intent.after(rows, ledger.rows_at)
        if isinstance(intent, Appending) and intent.on_overlap == "skip":
            rows = _less_skipped(rows, intent, commit, history, ledger)
    return tuple(sorted((*rows, *(row for row in commit.before if row in unseen)))), faults


def _columns_after(commit: Logged, history: History, ledger: Ledger) -> tuple[str, ...]:
    """The columns that a commit should leave."""
    columns: tuple[str, ...] = ledger.commits[commit.version - 1].landed.columns
    for intent in parts_of(commit, history):
        match intent:
            case Caring(care="add_column", detail=(name,)):
                columns = (*columns, name)
            case Restoring(version=version):
                columns = tuple(ledger.commits[version].landed.columns)
            case Appending() | Upserting() | Replacing() if not columns:
                # It brings those of the version for which it was made, which a restore may have overtaken.
                brought = commit.landed.columns
                columns = brought if brought[: len(COLUMNS)] == COLUMNS else COLUMNS
    return columns


def _less_skipped(rows: Rows, intent: Appending, commit: Logged, history: History, ledger: Ledger) -> Rows:
    """The rows less those that were left out for a bucket which was covered when that was decided, if not when it landed."""
    started_ns = next(sent.started_ns for sent in history.sent if sent.intent == intent and commit.id in sent.ids)
    covered = frozenset[Bucket]().union(
        *(buckets_of(ledger.rows_at(known)) for known in range(ledger.known_at(started_ns), commit.version))
    )
    skipped = {row for row in intent.rows if buckets_of((row,)) & covered} - set(commit.rows)
    return tuple(row for row in rows if row not in skipped)


def _allowed(senders: list[Sent]) -> frozenset[Bucket]:
    """Where the policy "allow" lets two segments cover one bucket."""
    intents = (sent.intent for sent in senders)
    return frozenset[Bucket]().union(
        *(buckets_of(i.rows) for i in intents if isinstance(i, Appending) and i.on_overlap == "allow")
    )


def _check_once(ledger: Ledger) -> Iterator[str]:
    """No row twice in any version, no job and no sequence twice; sequences only grow."""
    jobs: set[str] = set()
    sequences: dict[str, int] = {}
    for commit in ledger.commits.values():
        numbers = [number for _, _, number in commit.rows]
        if len(set(numbers)) < len(numbers):
            yield f"version {commit.version} holds rows twice: {sorted(n for n in set(numbers) if numbers.count(n) > 1)}"
        for body in commit.operations:
            if body.get("id") in jobs:
                yield f"the job {body['id']!r} was done twice, again as version {commit.version}"
            if "app_id" in body and body["sequence"] <= sequences.get(body["app_id"], -1):
                yield f"version {commit.version} takes {body['app_id']!r} back to {body['sequence']}"
            jobs |= {body["id"]} if "id" in body else set()
            sequences |= {body["app_id"]: body["sequence"]} if "app_id" in body else {}


def _check_seen(seen: Seen, ledger: Ledger, history: History) -> Iterator[str]:
    """One version as the log has it, and no older one than was promised."""
    commit = ledger.commits.get(seen.version)
    if commit is None:
        yield "the log does not have it"
        return
    if seen.rows is not None and seen.rows != commit.rows:
        yield f"with the rows {seen.rows}, which are {commit.rows}"
    if seen.buckets is not None and seen.buckets != buckets_of(commit.rows):
        yield f"with coverage {sorted(seen.buckets)}, and its rows lie in {sorted(buckets_of(commit.rows))}"
    if ledger.expires and seen.asked and not ledger.commits[ledger.known_at(seen.started_ns)].landed.keeps(seen.version):
        yield "though it had expired"
    if seen.fresh:
        acknowledged = (s.version for s in history.sent if s.version is not None and s.ended_ns <= seen.started_ns)
        if (newest := max(acknowledged, default=0)) > seen.version:
            yield f"as the newest, though version {newest} had been acknowledged"


def _check_missed(missed: Missed, ledger: Ledger) -> Iterator[str]:
    """A version that is refused as expired was expired."""
    newest = ledger.known_at(missed.ended_ns)
    if ledger.commits[newest].landed.keeps(missed.version):
        yield f"though version {newest} keeps it: {missed.error}"
