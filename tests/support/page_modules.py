"""The modules that a page of the documentation shows, as files with a title, imported."""

from __future__ import annotations

import re
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_TITLED = re.compile(r'^```python title="(?P<name>\w+)\.py"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)


def module_of(page: str, name: str) -> Any:
    """One of them; they do not import each other."""
    (text,) = [found["text"] for found in _TITLED.finditer((ROOT / page).read_text(encoding="utf-8")) if found["name"] == name]
    module = types.ModuleType(name)
    exec(compile(text, f"{page}:{name}.py", "exec"), vars(module))
    return module
