"""Known bugs of Delta tables, planted from outside; those of the commit conversation are in `broken_talk`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from gapless.errors import CommitOutcomeUnknown, StoreUnavailable
from gapless.formats.delta.actions import AddFile, Commit, RemoveFile, TableState
from gapless.formats.delta.checkpoint import writing
from gapless.formats.delta.conflict import CommitPredicate
from gapless.log.effects import Conversation
from gapless.log.format import Compatible, Snapshot
from gapless.runtime.committer import Committer
from gapless.tables.delta.care import restore, vacuum_plan
from gapless.tables.delta.write import changed_files, row_edit
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.vacuum import FileStatus, Limits
from testing.broken_talk import (
    append_again_after_a_lost_reply,
    rebase_on_the_last_only,
    retry_one_version_on,
    skip_the_read_back,
    take_exists_for_done,
)

Plant = Callable[[pytest.MonkeyPatch], None]


def terms_that_never_clash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever came first, the change is committed as it was decided."""

    def check_conflict(
        _self: CommitPredicate, mine: Commit, _version: int, _theirs: Commit
    ) -> Conversation[Compatible[Commit]]:
        yield from ()
        return Compatible(mine)

    monkeypatch.setattr(CommitPredicate, "check_conflict", check_conflict)


def _without(monkeypatch: pytest.MonkeyPatch, *conditions: str) -> None:
    honest = CommitPredicate._found
    monkeypatch.setattr(
        CommitPredicate,
        "_found",
        lambda self, what, mine, theirs: iter(()) if what in conditions else honest(self, what, mine, theirs),
    )


def remove_what_was_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What deltalake 1.6.6 lost: a compaction or a rewrite does not ask whether its files are still live."""
    _without(monkeypatch, "same files", "read files")


def overlook_rows_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that read the table does not ask for rows which it has not seen."""
    _without(monkeypatch, "read rows")


def overlook_operations_on_rebase(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebase does not ask whether the operation landed meanwhile."""
    _without(monkeypatch, "same application")


def restore_after_other_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore that lost a race is committed as it was decided."""
    _without(monkeypatch, "any commit", "same files", "read files", "read rows")


def apply_an_operation_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change does not look whether it was made before."""
    monkeypatch.setattr(ChangeOutcome, "before", lambda _snapshot, _operation: None)


def forget_the_vector_that_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second delete from a file writes a vector of its own rows alone."""
    honest = row_edit.delete_positions

    def broken(reader: Any, file: AddFile, positions: Any) -> Any:
        struck = honest(reader, file, positions)
        return None if struck is None else replace(struck, positions=np.asarray(positions))

    monkeypatch.setattr(changed_files, "delete_positions", broken)


def encode_paths_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What deltalake 1.6.6 does: the path of a removed file is spelled in another way than it was added."""
    honest = RemoveFile.of.__func__  # type: ignore[attr-defined]

    def broken(cls: type[RemoveFile], file: AddFile, *arguments: Any, **named: Any) -> RemoveFile:
        found: RemoveFile = honest(cls, file, *arguments, **named)
        return structs.replace(found, path=file.path.replace("-", "%2D", 1))

    monkeypatch.setattr(RemoveFile, "of", classmethod(broken))


def vacuum_what_versions_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vacuum takes every file that the newest version does not have, however lately it was removed."""
    monkeypatch.setattr(vacuum_plan, "_status_of_removed", lambda *_arguments: FileStatus("expired"))


def vacuum_what_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vacuum takes every file that no version names, however young."""
    monkeypatch.setattr(Limits, "reason_of_unnamed", lambda _self, _written_ns: "orphan")


def vacuum_vectors_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vacuum does not ask which files live files name as their deletion vectors: those of days ago go."""

    def broken(self: Any, file: AddFile | RemoveFile, fate: Any) -> None:
        self.note(file.path, fate)

    monkeypatch.setattr(vacuum_plan._Named, "note_file", broken)


def decide_by_a_stale_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change is decided on the version that it finds, and committed after the newest without a look at what lies between."""
    honest = Committer.commit
    monkeypatch.setattr(Committer, "commit", lambda self, snapshot, proposal: honest(self, self.refresh(snapshot), proposal))


def delete_what_an_append_may_have_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the outcome is not known, the files are removed."""
    honest = Committer.commit

    def broken(self: Any, snapshot: Any, proposal: Any) -> Any:
        try:
            return honest(self, snapshot, proposal)
        except (CommitOutcomeUnknown, StoreUnavailable):
            proposal.discard()
            proposal.abandon()
            raise

    monkeypatch.setattr(Committer, "commit", broken)


def _checkpoints_of(monkeypatch: pytest.MonkeyPatch, change: Callable[[TableState], TableState]) -> None:
    honest = writing.pack

    def broken(snapshot: Snapshot[TableState], token: str) -> Any:
        return honest(replace(snapshot, state=change(snapshot.state)), token)

    monkeypatch.setattr(writing, "pack", broken)


def checkpoint_without_the_last_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log checkpoint holds the files of the version before."""
    _checkpoints_of(monkeypatch, lambda state: replace(state, files=dict(list(state.files.items())[:-1])))


def checkpoint_without_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log checkpoint leaves the transactions out."""
    _checkpoints_of(monkeypatch, lambda state: replace(state, applied={}))


def checkpoint_without_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log checkpoint tells of files without their deletion vectors."""

    def bare(files: Any) -> dict[str, AddFile]:
        return {file.path: structs.replace(file, deletion_vector=None) for file in files.values()}

    _checkpoints_of(monkeypatch, lambda state: replace(state, files=bare(state.files)))


def clean_the_log_before_its_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is cleaned without the checkpoints that stand for what goes."""

    def nothing(_dialect: Any, _version: int, **_named: Any) -> Conversation[None]:
        yield from ()

    monkeypatch.setattr("gapless.log.cleanup._ensure_checkpoint", nothing)
    monkeypatch.setattr("gapless.log.cleanup._parts_of", lambda *_arguments: frozenset())


def restore_what_was_vacuumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore does not look whether the files are still there."""
    monkeypatch.setattr(restore._Restore, "_check_kept", lambda _self, _commit, _now: None)


DELTA_PLANTS: tuple[Plant, ...] = (
    skip_the_read_back,
    take_exists_for_done,
    append_again_after_a_lost_reply,
    retry_one_version_on,
    rebase_on_the_last_only,
    terms_that_never_clash,
    remove_what_was_removed,
    overlook_rows_that_came,
    overlook_operations_on_rebase,
    restore_after_other_commits,
    apply_an_operation_again,
    forget_the_vector_that_was_there,
    encode_paths_anew,
    vacuum_what_versions_keep,
    vacuum_what_is_in_flight,
    vacuum_vectors_in_use,
    decide_by_a_stale_handle,
    delete_what_an_append_may_have_landed,
    checkpoint_without_the_last_file,
    checkpoint_without_operations,
    checkpoint_without_vectors,
    clean_the_log_before_its_checkpoints,
    restore_what_was_vacuumed,
)
