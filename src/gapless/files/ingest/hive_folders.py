"""Folders of files that are named `column=value`, as Hive and Spark lay partitions out."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def folder_values(path: Path) -> dict[str, str | None]:
    """The texts of the partition folders in the path of a file, by column, None for null; the innermost folder of a name counts.

    >>> folder_values(Path("day=2026-01-05/who=a%20b/x.parquet"))
    {'day': '2026-01-05', 'who': 'a b'}
    """
    found: dict[str, str | None] = {}
    for part in path.parts[:-1]:
        name, equals, text = part.partition("=")
        if equals and name:
            found[unquote(name)] = None if text == NULL_FOLDER else unquote(text)
    return found
