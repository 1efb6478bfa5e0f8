"""Which files a path means, and their rows as batches.

Parquet files as record batches, by row groups.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.errors import InvalidOption, InvalidPath, InvalidValue
from gapless.files.ingest.batches import Batches, checked_values, rows_without_columns
from gapless.files.ingest.csv_file import open_csv, survey_csv
from gapless.files.ingest.json_file import JsonSurvey, open_json, survey_json
from gapless.files.ingest.rows import merge_schema
from gapless.files.ingest.texts import merge_surveys, reading, text_name
from gapless.model.index import IndexSpec
from gapless.model.input_formats import Csv, Format, Json, Parquet, parse_format

BATCH_ROWS = 1 << 16


@contextmanager
def _open(path: Path, int96_unit: str = "us") -> Iterator[pq.ParquetFile]:
    # An open file, not its path: pyarrow must see neither a URI in it nor partitions such as Year=2022.
    with reading(path), pa.OSFile(str(path), "r") as source:
        yield pq.ParquetFile(source, coerce_int96_timestamp_unit=int96_unit)


def open_parquet(path: Path) -> Batches:
    """A Parquet file as batches of at most 65,536 rows; no more than a row group's column chunks are held.

    The columns are those in the file: names in its path are not read. INT96 timestamps come as microseconds, which hold
    every year; one with nanoseconds raises InvalidValue, and so does text that is not UTF-8. Raises UnreadableInput.
    """
    with _open(path) as file:
        schema, rows = file.schema_arrow.remove_metadata(), file.metadata.num_rows
        legacy = [name for name in schema.names if _is_int96(file, name)]

    def read() -> Iterator[pa.RecordBatch]:
        if not schema.names:
            # Arrow reads no batch of them.
            return rows_without_columns(rows)
        batches = _exact_batches(path, legacy) if legacy else _batches(path, None, "us")
        return (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)

    found = Batches(source=str(path), schema=schema, read=read, rows_hint=rows, bytes_hint=path.stat().st_size)
    return checked_values(found)


def _batches(path: Path, columns: list[str] | None, int96_unit: str) -> Iterator[pa.RecordBatch]:
    with _open(path, int96_unit) as file:
        yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)


def _exact_batches(path: Path, legacy: list[str]) -> Iterator[pa.RecordBatch]:
    """Batches whose INT96 columns, `legacy`, were checked to lose nothing as microseconds."""
    row = 0
    for batch, fine in zip(_batches(path, None, "us"), _batches(path, legacy, "ns"), strict=True):
        for name in legacy:
            _check_exact(batch.column(name), fine.column(name), name, path, row)
        yield batch
        row += batch.num_rows


def _is_int96(file: pq.ParquetFile, name: str) -> bool:
    columns = (file.schema.column(at) for at in range(len(file.schema)))
    return any(column.path == name and column.physical_type == "INT96" for column in columns)


def _check_exact(values: pa.Array, fine: pa.Array, name: str, path: Path, row: int) -> None:
    """Refuse an INT96 value with nanoseconds: `fine` is the same read as ns, which wraps outside 1678 to 2261."""
    micros, nanos = values.cast(pa.int64()), fine.cast(pa.int64())
    whole = pc.multiply(pc.divide(nanos, 1000), 1000)
    in_range = pc.less(pc.abs(micros), 2**63 // 1000 - 1)
    at = pc.index(pc.and_(in_range, pc.not_equal(whole, nanos)), pa.scalar(True)).as_py()
    if at >= 0:
        raise InvalidValue(
            f"column {name!r} holds {fine[at]} in row {row + at} (from 0) of {path}",
            why="It is a legacy INT96 timestamp with nanoseconds, and those are read as microseconds",
            fix="Write the file anew with timestamp[ns] columns",
            column=name, row=row + at, value=str(fine[at]), source=str(path),
        )  # fmt: skip


_BY_SUFFIX: Mapping[str, Format] = {
    ".parquet": Parquet(), ".pq": Parquet(), ".csv": Csv(), ".tsv": Csv(delimiter="\t"),
    ".jsonl": Json(), ".ndjson": Json(), ".json": Json(),
}  # fmt: skip


def format_of(path: Path, given: Format | None) -> Format:
    """The format of a file: the given one, else by its suffix, else Parquet by its first bytes; raises InvalidOption."""
    if given is not None:
        return given
    found = _BY_SUFFIX.get(Path(text_name(path)).suffix)
    if found is not None:
        return found
    if _begins_as_parquet(path):
        return Parquet()
    raise InvalidOption(
        f"the format of {path} is not known",
        why=f"Its name ends in none of {', '.join(_BY_SUFFIX)}",
        fix='Pass format="parquet", "csv" or "jsonl", or a Csv(…) or Json(…)',
        option="format", value=None,
    )  # fmt: skip


def _begins_as_parquet(path: Path) -> bool:
    with reading(path), path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _is_data(path: Path) -> bool:
    return not path.name.startswith((".", "_")) and Path(text_name(path)).suffix in _BY_SUFFIX and path.is_file()


def expand_paths(path: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files that a local path, or each of several, means. Raises InvalidPath as `expand_path` does, and where several
    paths name one file: its rows would be in the commit twice.
    """
    if isinstance(path, str | Path):
        return expand_path(path)
    found = [file for one in path for file in expand_path(one)]
    seen: set[Path] = set()
    for file in found:
        if file.resolve() in seen:
            why = "Its rows would be in the commit twice"
            raise InvalidPath(f"{str(file)!r} is named twice", why=why, fix="Name each file once", path=str(file))
        seen.add(file.resolve())
    if not found:
        raise InvalidPath("there is no file to append", why="The list of paths is empty", fix="Name at least one", path="")
    return found


def expand_path(path: str | Path) -> list[Path]:
    """The files that a local path means, in the order of their names. `~` is the home directory.

    - A file (also one literally named `a[1].csv`): itself, whatever its suffix.
    - A directory: its files `*.parquet`, `.pq`, `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.json`, compressed or not. Other files
      are left out, and so are those whose names begin with `.` or `_`. Sub-directories are not entered; where one holds data
      files, the call is refused, since leaving them out in silence would lose rows.
    - Else a glob (`*`, `?`, `[…]`, `**`): the files it matches; names that begin with `.` only where the pattern says so.
      A directory among the matches is refused.

    Raises InvalidPath where nothing is there.
    """
    text = str(path)
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
    paths: Sequence[Path], file_format: object = None, *, index: IndexSpec | None, schema: pa.Schema | None = None
) -> list[Batches]:
    """Files as batches, one value a file, each with its own schema (its columns, in its order).

    `file_format` is a Csv, Json or Parquet, the name of one, or None (each file by its suffix). `schema` is the table's, where it
    has one: text columns are then read as its types. Where it says nothing, types are settled over **all** values of all
    these files together, so that a column does not change its type from one file to the next. `index` is the table's, where it has one.

    Text files are read here once to settle types (a CSV file without a timestamp or unknown column is not) and once more when
    the batches are asked for. Raises InvalidOption, UnreadableInput or InvalidValue.
    """
    given = parse_format(file_format)
    formats = [format_of(path, given) for path in paths]
    pairs = list(zip(paths, formats, strict=True))
    csvs = {path: survey_csv(path, options, index, schema) for path, options in pairs if isinstance(options, Csv)}
    jsons = {path: survey_json(path, options, index, schema) for path, options in pairs if isinstance(options, Json)}
    found, merged = merge_surveys(list(csvs.values())), _merge(jsons)
    opened = []
    for path, options in pairs:
        match options:
            case Csv():
                opened.append(open_csv(path, options, index, schema, found))
            case Json():
                opened.append(open_json(path, options, index, schema, merged, jsons[path]))
            case Parquet():
                opened.append(open_parquet(path))
    return opened


def _merge(surveys: Mapping[Path, JsonSurvey]) -> JsonSurvey:
    types: dict[str, pa.DataType] = {}
    for path, one in surveys.items():
        types = merge_schema(types, one.types, str(path))
    return JsonSurvey(types=types, texts=merge_surveys([one.texts for one in surveys.values()]))
