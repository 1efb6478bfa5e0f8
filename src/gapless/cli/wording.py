"""Messages of the library, which speak Python, in the words of the command line."""

from __future__ import annotations

import re

_OPTIONS = (
    "on_overlap", "index_type", "timezone", "bucket", "index", "entity", "start", "end", "where", "order", "columns", "format",
    "timestamp_format", "timestamp_unit", "delimiter", "property",
)  # fmt: skip
_PHRASES: tuple[tuple[str, str], ...] = (
    (r'gl\.create\(path, index="ts", bucket="1h"\)', "gapless create PATH --index ts --bucket 1h"),
    (r"gl\.open\(path, upgrade=True\), or pass --upgrade", "--upgrade"),
    (r"Use gl\.open\(path\), or another path", "Append to it, or create another path"),
    (r"Open it with --upgrade", "Pass --upgrade"),
    (r"table\.history\(\)", "gapless history PATH"),
    (r"table\.schema", "gapless schema PATH"),
    (r"table\.sql", "gapless sql"),
    (r"in storage_options", "with --storage-option NAME=VALUE"),
    (r"storage_options", "--storage-option"),
    (r"unique=True", "--property unique=true"),
    (r"identities", "identities"),
)
_KEYWORD = re.compile(rf"(?<![\w-])({'|'.join(_OPTIONS)})=(?=[\"'\[\w…])")


def for_shell(text: str) -> str:
    """A message with Python's keywords and calls as options and commands.

    >>> for_shell('Pass on_overlap="skip" to keep what is there')
    'Pass --on-overlap "skip" to keep what is there'
    """
    for python, shell in _PHRASES:
        text = re.sub(python, shell, text)
    return _KEYWORD.sub(lambda match: f"--{match[1].replace('_', '-')} ", text)
