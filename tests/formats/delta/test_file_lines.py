"""Long commits, whose file actions msgspec decodes: what comes out is what decoding line by line gives, error or not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.errors import TableError
from gapless.formats.delta import commit_codec
from gapless.formats.delta.actions import AddFile, RemoveFile, file_keys
from gapless.formats.delta.commit_codec import decode_commit
from gapless.formats.delta.file_lines import LONG_BYTES, decode_file_lines, find_file_lines
from support.delta_log import add, remove

INFO = '{"commitInfo":{"timestamp":1767225600000,"operation":"WRITE"}}'
STATS = json.dumps({"numRecords": 1, "minValues": {"id": 1}, "maxValues": {"id": "é\u2028"}})
VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 36, "cardinality": 2}


def add_line(path: str, **more: Any) -> str:
    body = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 2, "dataChange": True, "stats": STATS}
    return json.dumps({"add": {name: value for name, value in (body | more).items() if value != "leave out"}})


def remove_line(path: str, **more: Any) -> str:
    return json.dumps({"remove": {"path": path, "deletionTimestamp": 3, "dataChange": True, **more}})


MANY = [add_line(f"part-{number}.parquet") for number in range(LONG_BYTES // 100)]
LINES = (
    "",
    " ",
    "\r",
    INFO,
    '{"txn":{"appId":"a","version":1}}',
    '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
    '{"cdc":{"path":"c","partitionValues":{},"size":1,"dataChange":false}}',
    '{"unheardOf":{}}',
    "{}",
    "[]",
    "null",
    "{",
    '{"add":null}',
    '{"add":{}}',
    '{"add":{"path":"a","size":1},"remove":{"path":"a"}}',
    '{"add":{"path":"a","size":1},"unheardOf":{}}',
    '{"add":{"path":"a","size":1}} {"add":{"path":"b","size":1}}',
    '{"add":{"path":"a","path":"b","size":1}}',
    '{"add":{"path":"a","size":1,"unheardOf":NaN}}',
    '{"add":{"path":"a","size":1,"unheardOf":{"deep":[1,{"er":null}]}}}',
    '{"add":{"path":"\\ud800 and more","size":1}}',
    '{"add":{"path":"a","size":1,"unheardOf":"\\udc00 and more"}}',
    '{"add":{"path":"a","size":1,"unheardOf":"\\ud83d\\ude00"}}',
    '{"add":{"path":"a",\n"size":1}}',
    '{ "add" : { "path" : "a", "size" : 1 } }',
    add_line("a", size=-1),
    add_line("a", size=1.0),
    add_line("a", size=True),
    add_line("a", size=2**63),
    add_line("a", size=2**64),
    add_line("a", modificationTime=None),
    add_line("a", modificationTime="leave out"),
    add_line("a", partitionValues=None),
    add_line("a", partitionValues={"p": None, "q": "é", "r": ""}),
    add_line("a", partitionValues={"p": 5, "q": True}),
    add_line("a", tags={"t": None, "u": 1.5}),
    add_line("a", tags={"t": "u"}),
    add_line("a", stats=None),
    add_line("a", stats={"numRecords": 1}),
    add_line("a", dataChange=None),
    add_line("a", dataChange="yes"),
    add_line("a", deletionVector=VECTOR),
    add_line("a", deletionVector=VECTOR | {"offset": None}),
    add_line("a", deletionVector=VECTOR | {"cardinality": -1}),
    add_line("a", deletionVector={}),
    add_line("a", baseRowId=7, defaultRowCommitVersion=3, clusteringProvider="liquid"),
    add_line("a", baseRowId=-(2**63) - 1),
    add_line("part-1.parquet"),
    remove_line("part-0.parquet"),
    remove_line("r", deletionTimestamp=None, extendedFileMetadata=True, partitionValues={"p": "1"}, size=5),
    remove_line("r", size=-5),
    remove_line("r", deletionVector=VECTOR, tags={"t": "u"}, stats=STATS, baseRowId=1, defaultRowCommitVersion=2),
)


def decoded(data: bytes) -> object:
    try:
        return decode_commit(data, "0.json")
    except TableError as error:
        return type(error), str(error)


def line_by_line(data: bytes) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_codec, "LONG_BYTES", 2**62)
        return decoded(data)


@given(
    st.lists(st.tuples(st.integers(0, len(MANY)), st.sampled_from(LINES)), max_size=4),
    st.sampled_from(("", "\n", "\n\n", "\r\n")),
)
@example([(0, INFO), (0, LINES[4])], "\n")
def test_a_long_commit_says_what_its_lines_say_one_by_one(odd: list[tuple[int, str]], end: str) -> None:
    lines = list(MANY)
    for at, line in odd:
        lines.insert(at, line)
    data = ("\n".join(lines) + end).encode()
    assert decoded(data) == line_by_line(data)


@pytest.mark.parametrize("line", LINES)
def test_each_odd_line_among_many_is_what_it_is_alone(line: str) -> None:
    for at in (0, 7, len(MANY)):
        data = "\n".join([INFO, *MANY[:at], line, *MANY[at:], ""]).encode()
        assert decoded(data) == line_by_line(data)


@pytest.mark.parametrize("at", [0, 500, -1])
def test_bytes_that_are_no_utf_8_are_found_wherever_they_are(at: int) -> None:
    data = bytearray("\n".join([INFO, *MANY, ""]).encode())
    where = data.index(b"deep") if b"deep" in data else data.index(b"part-", at % len(data) // 2)
    data[where] = 0xFF
    assert decoded(bytes(data)) == line_by_line(bytes(data))


def test_the_lines_of_a_usual_commit_are_decoded_at_once() -> None:
    lines = [INFO, *MANY, *(remove_line(f"r-{number}") for number in range(30)), LINES[4], ""]
    data = "\n".join(lines).encode()
    start, end = find_file_lines(data)
    assert (data[:start], data[end:]) == (f"{INFO}\n".encode(), f"{LINES[4]}\n".encode())
    found = decode_file_lines(data, start, end)
    assert found is not None
    assert [type(one) for one in found] == [AddFile] * len(MANY) + [RemoveFile] * 30


def test_where_file_actions_begin_and_end() -> None:
    for lines, there in (
        ([], []),
        (["x"], []),
        (['{"add":1}'], ['{"add":1}']),
        (["x", '{"remove":1}', "y"], ['{"remove":1}']),
        (['{"remove":1}', '{"add":2}', "x", '{"remove":3}', "y"], ['{"remove":1}', '{"add":2}', "x", '{"remove":3}']),
        (['{"add":1}', "x", '{"remove":2}'], ['{"add":1}', "x", '{"remove":2}']),
    ):
        for end in ("", "\n"):
            data = ("\n".join(lines) + end).encode()
            found = data[slice(*find_file_lines(data))].decode()
            assert [line for line in found.split("\n") if line] == there


@given(
    st.lists(st.sampled_from(("a", "b/c", "%61", "/x", "file:/x", "new\nline", "\n/x", "s3://b/a")), max_size=3), st.booleans()
)
def test_keys_of_many_files_are_the_key_of_each(paths: list[str], vectors: bool) -> None:
    files = [add(path, 1 if vectors else None) for path in paths]
    assert file_keys(files) == [file.key for file in files]
    assert remove("a").key == "a"
