"""Which files a path means, in which format each is, and their rows as batches."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from gapless.errors import InvalidOption, InvalidPath
from gapless.files.ingest.batches import Batches
from gapless.files.ingest.cells.texts import merge_surveys
from gapless.files.ingest.csv_file import open_csv, survey_csv
from gapless.files.ingest.first_bytes import HEAD_BYTES, is_parquet
from gapless.files.ingest.input_file import (
    STANDARD_INPUT,
    InputFile,
    copy_open_file,
    input_file,
    is_open_file,
    is_stream,
    reading,
)
from gapless.files.ingest.json_file import JsonSurvey, open_json, survey_json
from gapless.files.ingest.parquet_file import open_parquet
from gapless.files.ingest.rows import merge_schema
from gapless.files.ingest.text_file import text_name
from gapless.model.index import IndexSpec
from gapless.model.input_formats import Csv, Format, Json, Parquet, parse_format

FileArgument = str | Path | IO[Any] | Sequence[str | Path | IO[Any]]
"""What users name files by: paths, globs, `-` for standard input, or open files."""

_BY_SUFFIX: Mapping[str, Format] = {
    ".parquet": Parquet(), ".pq": Parquet(), ".csv": Csv(), ".tsv": Csv(delimiter="\t"),
    ".jsonl": Json(), ".ndjson": Json(), ".json": Json(),
}  # fmt: skip


def format_of(file: Path | InputFile, given: Format | None) -> Format:
    """The format of a file: the given one, else by its suffix, else Parquet by its first bytes; raises InvalidOption.

    A pipe is not read for it.
    """
    if given is not None:
        return given
    path = file if isinstance(file, Path) else file.path
    piped = is_stream(file) if isinstance(file, Path) else file.copied
    found = None if piped else _BY_SUFFIX.get(Path(text_name(path)).suffix)
    if found is not None:
        return found
    if not (piped and isinstance(file, Path)) and _begins_as_parquet(path):
        return Parquet()
    why = "It has no name whose suffix would say it" if piped else f"Its name ends in none of {', '.join(_BY_SUFFIX)}"
    raise _refuse_format(str(file), why)


def _refuse_format(name: str, why: str) -> InvalidOption:
    return InvalidOption(
        f"the format of {name} is not known",
        why=why,
        fix='Pass format="parquet", "csv" or "jsonl", or a Csv(…) or Json(…); where it is no data, a pattern such as "*.csv" leaves it out',
        option="format", value=None,
    )  # fmt: skip


def _begins_as_parquet(path: Path) -> bool:
    with reading(path), path.open("rb") as file:
        return is_parquet(file.read(HEAD_BYTES))


def _is_data(path: Path) -> bool:
    return not path.name.startswith((".", "_")) and Path(text_name(path)).suffix in _BY_SUFFIX and path.is_file()


def expand_paths(path: FileArgument) -> list[Path | InputFile]:
    """The files that a local path, or each of several, means; an open file is copied. Raises InvalidPath as `expand_path` does,
    and where several paths name one file: its rows would be in the commit twice.
    """
    if isinstance(path, str | Path) or is_open_file(path):
        return _expand(path)
    if not isinstance(path, Sequence):
        why = f"It is a {type(path).__name__}"
        raise InvalidPath(
            f"{path!r} names no file to append", why=why, fix="Pass a path, a list of paths, or an open file", path=str(path)
        )
    found = [file for one in path for file in _expand(one)]
    seen: set[Path] = set()
    for file in found:
        if isinstance(file, InputFile):
            continue
        if file.resolve() in seen:
            why = "Its rows would be in the commit twice"
            raise InvalidPath(f"{str(file)!r} is named twice", why=why, fix="Name each file once", path=str(file))
        seen.add(file.resolve())
    if not found:
        raise InvalidPath("there is no file to append", why="The list of paths is empty", fix="Name at least one", path="")
    return found


def _expand(path: Any) -> list[Path | InputFile]:
    return [copy_open_file(path)] if is_open_file(path) else [*expand_path(path)]


def expand_path(path: str | Path) -> list[Path]:
    """The files that a local path means, in the order of their names. `~` is the home directory, `-` standard input.

    - A file, a pipe (also one literally named `a[1].csv`): itself, whatever its suffix.
    - A directory: its files `*.parquet`, `.pq`, `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.json`, compressed or not. Other files
      are left out, and so are those whose names begin with `.` or `_`. Sub-directories are not entered; where one holds data
      files, the call is refused, since leaving them out in silence would lose rows.
    - Else a glob (`*`, `?`, `[…]`, `**`): the files it matches; names that begin with `.` only where the pattern says so.
      A directory among the matches is refused.

    Raises InvalidPath where nothing is there.
    """
    text = str(path)
    if path == "-":
        return [STANDARD_INPUT]
    literal = Path(text).expanduser() if text else None
    if literal is None or ("://" in text and not literal.exists()):
        raise _refuse(text, "Files are read from this machine's disk", "Fetch the file, or append its rows as an Arrow stream")
    if literal.is_dir():
        return _in_directory(literal)
    if literal.exists():
        return [literal]
    if not glob.has_magic(text):
        raise _refuse(text, "Nothing is there", _nearest_file(literal))
    matches = sorted(map(Path, glob.glob(str(literal), recursive=True)))  # noqa: PTH207 - the pattern may be absolute
    folders = [found for found in matches if found.is_dir()]
    if folders:
        raise _refuse(
            text,
            f"It also matches the directory {folders[0]}",
            f"End the pattern in a name of files: {text.rstrip('/')}/*.parquet",
        )
    if not matches:
        raise _refuse(text, "No file has that name, and as a glob it matches none", "Check the pattern")
    return matches


def _in_directory(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if _is_data(path))
    nested = next((path for path in sorted(folder.rglob("*")) if _is_nested_data(path, folder)), None)
    if nested is not None:
        why = f"It has sub-directories with data, such as {nested.relative_to(folder)}"
        raise _refuse(str(folder), why, f'Pass a glob: "{folder}/*{nested.suffix}" or "{folder}/**/*{nested.suffix}"')
    if not found:
        raise _refuse(
            str(folder),
            "The directory holds no data file",
            f"It may hold {', '.join(_BY_SUFFIX)}; hidden and _names do not count",
        )
    return found


def _is_nested_data(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    return len(parts) > 1 and not any(part.startswith((".", "_")) for part in parts) and _is_data(path)


def _nearest_file(path: Path) -> str:
    beside = sorted(other.name for other in path.parent.iterdir())[:5] if path.parent.is_dir() else []
    return (
        f"Beside it lie: {', '.join(beside)}"
        if beside
        else f"Check the path; the directory {path.parent} is not there, or is empty"
    )


def _refuse(path: str, why: str, fix: str) -> InvalidPath:
    return InvalidPath(f"{path!r} names no file to append", why=why, fix=fix, path=path)


def open_file(
    path: str | Path, file_format: object = None, *, index: IndexSpec | None, schema: pa.Schema | None = None
) -> Batches:
    """One file as batches: `open_files` of it alone."""
    return open_files([Path(path)], file_format, index=index, schema=schema)[0]


def open_files(
    paths: Sequence[Path | InputFile], file_format: object = None, *, index: IndexSpec | None, schema: pa.Schema | None = None
) -> list[Batches]:
    """Files as batches, one value a file, each with its own schema (its columns, in its order).

    `file_format` is a Csv, Json or Parquet, the name of one, or None (each file by its suffix). `schema` is the table's, where it
    has one: text columns are then read as its types. Where it says nothing, types are settled over **all** values of all
    these files together, so that a column does not change its type from one file to the next. `index` is the table's, where it has one.
    A text file without rows has no columns where the table has none.

    Text files are read here once to settle types (a CSV file without a timestamp or unknown column is not) and once more when
    the batches are asked for; what comes through a pipe is copied to a temporary file first. Raises InvalidOption, UnreadableInput or
    InvalidValue.
    """
    given = parse_format(file_format)
    pairs = [(file, format_of(file, given)) for file in [_input(path, given) for path in paths]]
    csvs = {
        at: survey_csv(file, options, index, schema) for at, (file, options) in enumerate(pairs) if isinstance(options, Csv)
    }
    jsons = {
        at: survey_json(file, options, index, schema) for at, (file, options) in enumerate(pairs) if isinstance(options, Json)
    }
    found = merge_surveys([one.found for one in csvs.values()])
    merged = _merge([(pairs[at][0], one) for at, one in jsons.items()])
    opened = []
    for at, (file, options) in enumerate(pairs):
        match options:
            case Csv():
                opened.append(open_csv(csvs[at], index, schema, found))
            case Json():
                opened.append(open_json(file, options, index, schema, merged, jsons[at]))
            case Parquet():
                opened.append(open_parquet(file))
    return opened


def _input(path: Path | InputFile, given: Format | None) -> InputFile:
    """A file as it is, or the copy of a pipe. Raises InvalidOption where nothing says the format of a pipe."""
    if isinstance(path, InputFile):
        return path

    def check(name: str, head: bytes) -> None:
        if given is None and not is_parquet(head):
            raise _refuse_format(name, "It has no name whose suffix would say it")

    return input_file(path, check)


def _merge(surveys: Sequence[tuple[InputFile, JsonSurvey]]) -> JsonSurvey:
    types: dict[str, pa.DataType] = {}
    for file, one in surveys:
        types = merge_schema(types, one.types, file.name)
    return JsonSurvey(types=types, texts=merge_surveys([one.texts for _, one in surveys]))
