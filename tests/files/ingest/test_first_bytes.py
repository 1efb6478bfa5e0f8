"""What the first bytes of a file say: read by their mark, or told by name."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import UnreadableInput
from gapless.files.ingest.files import open_file
from gapless.model.index import IndexSpec, IntWidth
from gapless.model.input_formats import Csv

NUMBERED = IndexSpec(column="n", type="int64", bucket=IntWidth(10))
TEXT = "n,v\n1,é€😀\n2,b\n"
LINES = '{"n": 1, "v": "é€😀"}\n{"n": 2, "v": "b"}\n'
ROWS = [{"n": 1, "v": "é€😀"}, {"n": 2, "v": "b"}]


def read(path: Path, options: object = None) -> list[dict[str, object]]:
    batches = open_file(path, options, index=NUMBERED)
    return pa.Table.from_batches(batches, batches.schema).to_pylist()  # type: ignore[no-any-return]


def compressed(codec: str, content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as out:
        out.write(content)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("name", "text"),
    [("x.csv", TEXT), ("x.tsv", TEXT.replace(",", "\t")), ("x.jsonl", LINES), ("x.csv.gz", TEXT), ("x.jsonl.zst", LINES)],
)
def test_t2_12_a_byte_order_mark_says_the_encoding(tmp_path: Path, encoding: str, name: str, text: str) -> None:
    content = text.encode(encoding) if not encoding.endswith(("le", "be")) else ("\ufeff" + text).encode(encoding)
    codec = {".gz": "gzip", ".zst": "zstd"}.get(Path(name).suffix)
    (tmp_path / name).write_bytes(compressed(codec, content) if codec else content)
    assert read(tmp_path / name) == ROWS


def test_t2_12_an_export_of_excel_lands_in_a_table(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes("ts\tv\r\n2026-01-05T00:00Z\t1\r\n".encode("utf-16"))
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    assert table.append_file(path, format=gl.Csv(delimiter="\t")).rows == 1
    assert table.scan().to_arrow()["v"].to_pylist() == [1]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_t2_12_an_encoding_without_a_mark_is_told_and_read_when_declared(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "x.csv").write_bytes(TEXT.encode(encoding))
    with pytest.raises(UnreadableInput, match=f'encoding="{encoding}"'):
        read(tmp_path / "x.csv")
    assert read(tmp_path / "x.csv", Csv(encoding=encoding)) == ROWS


def test_t2_12_utf_32_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(TEXT.encode("utf-32"))
    with pytest.raises(UnreadableInput, match=r'mark of UTF-32.*encoding="utf-32-le"'):
        read(tmp_path / "x.csv")
    assert read(tmp_path / "x.csv", Csv(encoding="utf-32")) == ROWS


@pytest.mark.parametrize("marked", ["utf-8-sig", "utf-16"])
def test_t2_12_a_mark_that_contradicts_what_was_declared_is_told(tmp_path: Path, marked: str) -> None:
    (tmp_path / "x.csv").write_bytes("n,v\n1,é\n".encode(marked))
    with pytest.raises(UnreadableInput, match=r"mark of UTF-.*read as cp1252"):
        read(tmp_path / "x.csv", Csv(encoding="cp1252"))


@pytest.mark.parametrize("cut", [1, 3])
def test_utf_16_that_is_cut_within_a_character_is_damaged(tmp_path: Path, cut: int) -> None:
    (tmp_path / "x.csv").write_bytes((TEXT + "3,😀").encode("utf-16")[:-cut])
    with pytest.raises(UnreadableInput, match=r"line 4 of .* is not utf-16"):
        read(tmp_path / "x.csv")


def archive(kind: str) -> bytes:
    sink = io.BytesIO()
    if kind == "tar":
        with tarfile.open(fileobj=sink, mode="w") as tar:
            tar.addfile(tarfile.TarInfo("a.csv"))
        return sink.getvalue()
    with zipfile.ZipFile(sink, "w") as file:
        file.writestr("[Content_Types].xml" if kind == "xlsx" else "a.csv", TEXT)
    return sink.getvalue()


def arrow_file(write: object) -> bytes:
    sink = io.BytesIO()
    write(pa.table({"n": [1]}), sink)  # type: ignore[operator]  # of pyarrow, which has no types
    return sink.getvalue()


FOREIGN = {
    "gzip": gzip.compress(TEXT.encode()),
    "zstd": compressed("zstd", TEXT.encode()),
    "bzip2": bz2.compress(TEXT.encode()),
    "lz4": compressed("lz4", TEXT.encode()),
    "xz": lzma.compress(TEXT.encode()),
    "zip archive": archive("zip"),
    "tar archive": archive("tar"),
    "Excel": archive("xlsx"),
    "old Excel": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100),
    "a Parquet file": arrow_file(pq.write_table),
    "Arrow IPC": arrow_file(pa.feather.write_feather),
    "SQLite": b"SQLite format 3\x00" + bytes(100),
    "HTML": b"\n<!DOCTYPE html>\n<html><body>sign in</body></html>\n",
    "PDF": b"%PDF-1.7\n",
}


WRONG = [
    (named, noun)
    for named in ("x.csv", "x.tsv", "x.jsonl", "x.parquet", "x.csv.gz")
    for noun in FOREIGN
    if (named, noun) not in (("x.csv.gz", "gzip"), ("x.parquet", "a Parquet file"))
]


@pytest.mark.parametrize(("named", "noun"), WRONG)
def test_t2_12_a_file_under_a_wrong_name_is_told_by_name(tmp_path: Path, named: str, noun: str) -> None:
    (tmp_path / named).write_bytes(FOREIGN[noun])
    with pytest.raises(UnreadableInput, match=noun) as caught:
        read(tmp_path / named)
    assert caught.value.fix
    assert "cp1252" not in str(caught.value)


def test_t2_12_what_is_in_a_compressed_file_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(FOREIGN["a Parquet file"]))
    with pytest.raises(UnreadableInput, match="a Parquet file"):
        read(tmp_path / "x.csv.gz")
    (tmp_path / "y.csv.gz").write_bytes(gzip.compress(FOREIGN["tar archive"]))
    with pytest.raises(UnreadableInput, match="a tar archive"):
        read(tmp_path / "y.csv.gz")


def test_t2_12_without_a_name_that_says_otherwise_the_first_bytes_decompress(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(gzip.compress(TEXT.encode()))
    assert read(tmp_path / "part-0", "csv") == ROWS


def test_t2_12_text_under_the_name_of_another_text(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(LINES, encoding="utf-8")
    with pytest.raises(UnreadableInput, match=r'JSON lines.*format="jsonl"'):
        read(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text('[\n {"n": 1}\n]', encoding="utf-8")
    with pytest.raises(UnreadableInput, match="JSON array"):
        read(tmp_path / "x.csv")
    (tmp_path / "x.jsonl").write_text(TEXT, encoding="utf-8")
    with pytest.raises(UnreadableInput, match='format="csv"'):
        read(tmp_path / "x.jsonl")
    (tmp_path / "x.parquet").write_text(TEXT, encoding="utf-8")
    with pytest.raises(UnreadableInput, match=r"begins with 'n,v.*format=\"csv\""):
        read(tmp_path / "x.parquet")


def test_json_objects_may_be_a_column_of_texts(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('{"a": 1}\n{"a": 2}\n', encoding="utf-8")
    options = Csv(header=False, columns=["j"], delimiter="\t", quote=None)
    batches = open_file(tmp_path / "x.csv", options, index=None)
    assert pa.Table.from_batches(batches)["j"].to_pylist() == ['{"a": 1}', '{"a": 2}']
