"""Messages of the library, which speak Python, in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable


def _set_property(match: re.Match[str]) -> str:
    return f"`gapless delta alter PATH set {match[1]}={match[2] or 'true'}`"


_OPTIONS = (
    "on_overlap", "index_type", "timezone", "bucket", "index", "entity", "start", "end", "where", "order", "columns", "format",
    "timestamp_format", "timestamp_unit", "delimiter", "property", "window", "on_duplicate", "operation_id",
    "older_than",
)  # fmt: skip
_PHRASES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r'gl\.create\(path, index="ts", bucket="1h"\)', "`gapless create PATH --index ts --bucket 1h`"),
    (r"Open it with gl\.open\(path, upgrade=True\), or pass --upgrade", "Pass --upgrade"),
    (r"Use gl\.open\(path\), or another path", "Append to it, or create another path"),
    (
        r"Use gl\.delta\.open\(path\)(, or another path| or, for a time-series .*)",
        "Append to it with `gapless append` or `gapless delta append`, or create another path",
    ),
    (r"gl\.delta\.create\(path, schema\)", "`gapless delta create`"),
    (r"Open it with gl\.delta\.open\([^)]*\)", "`gapless delta --help` lists what Delta tables have"),
    (r"Open it with gl\.open\([^)]*\)", "Leave the word `delta` out"),
    (r"t(?:able)?\.alter\.set_properties\(\{['\"]([\w.]+)['\"]: (?:['\"](\w+)['\"]|True)\}\)", _set_property),
    (r"t(?:able)?\.alter\.unset_properties\(\['([\w.]+)'\]\)", r"`gapless delta alter PATH unset \1`"),
    (r"t(?:able)?\.alter\.drop_constraint\('([^']*)'\)", r"`gapless delta alter PATH drop-constraint \1`"),
    (r't(?:able)?\.alter\.add_constraint\("name", "expression"\)', "`gapless delta alter PATH add-constraint NAME SQL`"),
    (r"t(?:able)?\.update\(…\)", "`gapless delta update`"),
    (r"Write to that with gl\.open\(path\)", "Leave the word `delta` out"),
    (r'schema_mode="merge" adds new columns', "--add-columns adds new columns"),
    (r'pass schema_mode="merge" to', "pass --add-columns to"),
    (r'Pass schema_mode="merge", or replace', "Leave it out, or replace"),
    (r'schema_mode="overwrite"', "--new-columns"),
    (r'partitions="dynamic"', "--dynamic-partitions"),
    (r"pass enforce_retention=False", "`gapless delta vacuum --allow-short`"),
    (r'Pass where="([^"]*)"; delete\(where="true"\)', r'Say --where "\1"; --where true'),
    (r"\bvalues=(?=')", "--set "),
    (r"\bkeys=(?=['\"])", "--key "),
    (r"Pass version=3 or time=datetime\(2026, 1, 5, tzinfo=UTC\)", "Pass --version 3 or --time 2026-01-05T00:00Z"),
    (r"(\w+) table\.history\(\)", r"\1 `gapless history PATH`"),
    (r"table\.schema", "`gapless schema PATH`"),
    (r"se table\.sql", "se `gapless sql`"),
    (r"use where= for", "use `gapless scan --where` for"),
    (r"table\.append_file\(…\)", "`gapless append`"),
    (r"gl\.create\(…\)", "`gapless create`"),
    (r", or a Csv\(…\) or Json\(…\)", ""),
    (r"list it under nulls=, or state another type \(types=\)", "or name a text that means null with --null"),
    (r"\bnulls=", "--null"),
    (r"pass format=", "pass --format"),
    (r", or pass Csv\((columns=\[…\]|quote=None)\)( if that character means nothing)?", ""),
    (r", or state the type \(schema= at create, types= for CSV\)", ""),
    (r"gl\.Csv\((timestamp_\w+=[^)]*)\)", r"\1"),
    (r"(?<!_)\bin storage_options", "with --storage-option NAME=VALUE"),
    (r"\bstorage_options\b", "--storage-option"),
    (r"Pass start and end$", "Say both --start and --until"),
    (r"unique=True", "--property unique=true"),
    (
        r"Pass where=, start=, end= or entity=; delete\(where=\"true\"\)",
        "Say --where, --start, --end or --entity; --where true",
    ),
    (r'upsert\(…, on_duplicate="last"\)', "--on-duplicate last"),
    (r'table\.delete\(where="([^"]*)"\)', r"`gapless delete PATH --where '\1'`"),
    (r"gl\.(?:delta\.)?open_at\(path, version=(\d+)\)", r"`gapless at PATH --version \1`"),
    (
        r"Pass version=3, time=datetime\(2026, 1, 5, tzinfo=UTC\) or tag='name'",
        "Pass --version 3, --time 2026-01-05T00:00Z or --tag NAME",
    ),
    (r'Pass \("job-7", 42\) or "backfill-2026-01-05"', "Pass job-7:42 or backfill-2026-01-05"),
    (r", or an aware datetime", ""),
    (r"\bmove=True", "--move"),
    (r"\bpass tag=", "pass --tag"),
    (r"\bexpire\(\)", "`gapless expire`"),
    (r"\bkeep_versions=", "--keep-versions "),
    (r"\bolder_than=timedelta\(days=(\d+)\)", r"--older-than \1d"),
    (r"\bresort=True with cluster_by\b", "--resort with --cluster-by"),
)
_KEYWORD = re.compile(rf"(?<![\w'\"-])({'|'.join(_OPTIONS)})=(?=[\"'\[\w…])")
_BARE = re.compile(r"(?<![\w'\"-])(timestamp_format|timestamp_unit|on_overlap|index_type)(?![\w=])")


def for_shell(text: str) -> str:
    """A message with Python's keywords and calls as options and commands.

    >>> for_shell('Pass on_overlap="skip" to keep what is there')
    'Pass --on-overlap "skip" to keep what is there'
    """
    for python, shell in _PHRASES:
        text = re.sub(python, shell, text)
    text = _KEYWORD.sub(lambda match: f"--{match[1].replace('_', '-')} ", text)
    return _BARE.sub(lambda match: f"--{match[1].replace('_', '-')}", text)
