"""Lists that Arrow itself has crashed on, in tables of either kind. A process of its own runs each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("kind", ["list_view", "large_list_view", "bare"])
def test_lists_that_arrow_crashes_on_are_kept_value_for_value(kind: str) -> None:
    program = Path(__file__).with_name("list_views.py")
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(program), kind], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr[-3000:]
