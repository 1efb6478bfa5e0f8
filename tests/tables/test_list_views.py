"""Arrow's list views in tables of either kind. A process of its own runs it: Arrow's casts of such lists have crashed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("kind", ["list_view", "large_list_view"])
def test_list_views_are_kept_as_lists_value_for_value(kind: str) -> None:
    program = Path(__file__).with_name("list_views.py")
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(program), kind], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr[-3000:]
