"""A writer whose append lies in its commit dies at each system call in turn: all of it is there, or nothing."""

from __future__ import annotations

from pathlib import Path

import gapless as gl
from process.ledger import open_at
from process.test_die_at_every_call import Scene, _deaths, _die_at_system_call


def test_death_at_each_system_call_of_an_append_in_its_commit(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    table = gl.open(scene.origin)
    version = table.set_properties({"inline_bytes": 1 << 16, "checkpoint_interval": table.version + 2})
    assert version == table.refresh().properties.checkpoint_interval - 1, "the victim's commit owes a checkpoint"

    def act(number: int) -> None:
        _die_at_system_call(number, torn=True)
        scene.append(open_at(scene.place))

    assert _deaths(act, scene.prepare, scene.verify) >= 15
    assert [segment.data is not None for segment in open_at(scene.place).segments()] == [False, False, True, True]
