"""Protocols: what is read, what is written, and which versions and features a table needs."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import InvalidOption, NotSupported, UnsupportedTable
from gapless.formats.delta.actions import Metadata, Protocol
from gapless.formats.delta.features import (
    READER_FEATURES,
    WRITER_FEATURES,
    check_readable,
    check_writable,
    needed_features,
    needed_protocol,
    raised,
    supported_features,
    supports,
)
from gapless.formats.delta.schema.arrow_types import VARIANT, from_arrow
from gapless.formats.delta.schema.types import ArrayType, PrimitiveType, StructField, StructType

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "delta"
PLAIN = from_arrow(pa.schema([("x", pa.int64())]))


def _listed(*features: str, readers: tuple[str, ...] = ()) -> Protocol:
    return Protocol(
        reader=3 if readers else 1, writer=7, reader_features=frozenset(readers), writer_features=frozenset(features + readers)
    )


def _metadata(schema: StructType = PLAIN, **configuration: str) -> Metadata:
    return Metadata(id="x", schema=schema, configuration={f"delta.{name}": text for name, text in configuration.items()})


@pytest.mark.parametrize("protocol", [Protocol(reader=r, writer=w) for r, w in ((1, 1), (1, 2), (1, 4), (2, 5), (2, 6))])
def test_versions_without_lists_are_read_and_written(protocol: Protocol) -> None:
    check_readable(protocol, "t")
    check_writable(protocol, "t", _metadata())


@pytest.mark.parametrize("feature", sorted(READER_FEATURES))
def test_reader_features_that_are_known(feature: str) -> None:
    check_readable(_listed(readers=(feature,)), "t")
    check_writable(_listed(readers=(feature,)), "t", _metadata())


@pytest.mark.parametrize("feature", ["catalogManaged", "redirectReaderWriter-preview", "geospatial", "superVectors"])
def test_an_unknown_reader_feature_is_named(feature: str) -> None:
    with pytest.raises(UnsupportedTable, match=f"cannot be read .* '{feature}'") as caught:
        check_readable(_listed(readers=("deletionVectors", feature)), "memory:///t")
    assert caught.value.needs == feature


@pytest.mark.parametrize("feature", ["icebergCompatV1", "materializePartitionColumns", "soon"])
def test_an_unknown_writer_feature_refuses_writes_alone(feature: str) -> None:
    check_readable(_listed(feature), "t")
    with pytest.raises(UnsupportedTable, match=f"cannot be written .* '{feature}'") as caught:
        check_writable(_listed("appendOnly", feature), "t")
    assert caught.value.needs == feature


@pytest.mark.parametrize("protocol", [Protocol(reader=99, writer=7), Protocol(reader=4, writer=7)])
def test_versions_beyond_the_protocol(protocol: Protocol) -> None:
    with pytest.raises(UnsupportedTable, match="reader version"):
        check_readable(protocol, "t")
    with pytest.raises(UnsupportedTable):
        check_writable(protocol, "t")
    check_readable(Protocol(reader=1, writer=8), "t")
    with pytest.raises(UnsupportedTable, match="writer version 8"):
        check_writable(Protocol(reader=1, writer=8), "t")


def _changed(*changes: object) -> Metadata:
    field = StructField(name="x", type=PrimitiveType("long"), metadata={"delta.typeChanges": list(changes)})
    return _metadata(StructType(fields=(StructField(name="s", type=StructType(fields=(field,))),)))


def test_type_changes_that_the_protocol_has_are_read() -> None:
    known = _changed(
        {"fromType": "short", "toType": "integer"},
        {"fromType": "decimal(6, 2)", "toType": "decimal(10, 4)", "fieldPath": "key"},
    )
    check_readable(_listed(readers=("typeWidening",)), "t", known)
    for odd in ({"fromType": "long", "toType": "string"}, {"fromType": "long"}, 7):
        check_readable(_listed("appendOnly"), "t", _changed(odd))
        with pytest.raises(UnsupportedTable, match="the change of column 'x'"):
            check_readable(_listed(readers=("typeWidening-preview",)), "t", _changed(odd))


IDENTITY = StructType(fields=(StructField(name="i", type=PrimitiveType("long"), metadata={"delta.identity.start": 1}),))


@pytest.mark.parametrize(
    ("feature", "unused", "used"),
    [
        ("icebergCompatV1", _metadata(), _metadata(enableIcebergCompatV1="true")),
        ("icebergCompatV2", _metadata(enableIcebergCompatV2="false"), _metadata(enableIcebergCompatV2="true")),
    ],
)
def test_a_feature_that_is_not_in_use_does_not_count(feature: str, unused: Metadata, used: Metadata) -> None:
    check_writable(_listed(feature), "t", unused)
    with pytest.raises(UnsupportedTable, match=feature):
        check_writable(_listed(feature), "t", used)


def test_identity_columns_are_no_reason_to_refuse_a_table() -> None:
    """Only what would have to count their values is refused."""
    check_writable(Protocol(reader=2, writer=6), "t", _metadata(IDENTITY))
    check_writable(_listed("identityColumns"), "t", _metadata(IDENTITY))


def test_the_golden_and_fixture_protocols(shared: Path) -> None:
    """All are read but the one that is broken on purpose; all but that are written."""
    unread: set[str] = set()
    unwritten: set[str] = set()
    for log in [*FIXTURES.glob("*/table/_delta_log/*.json"), *shared.glob("golden/delta/*/delta/_delta_log/*.json")]:
        for line in log.read_text().splitlines():
            raw = json.loads(line).get("protocol")
            if raw is None:
                continue
            protocol = Protocol(
                reader=raw["minReaderVersion"],
                writer=raw["minWriterVersion"],
                reader_features=frozenset(raw.get("readerFeatures") or ()),
                writer_features=frozenset(raw.get("writerFeatures") or ()),
            )
            for check, failed in ((check_readable, unread), (check_writable, unwritten)):
                try:
                    check(protocol, "t")
                except UnsupportedTable:
                    failed.add(log.parents[2].name)
    assert unread == {"deltalog-invalid-protocol-version"}
    assert unwritten == {"deltalog-invalid-protocol-version"}


LEVELS = {
    2: {"appendOnly", "invariants"},
    3: {"appendOnly", "invariants", "checkConstraints"},
    4: {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"},
    5: {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"},
}


@pytest.mark.parametrize("level", LEVELS)
def test_versions_stand_for_what_the_protocol_says(level: int) -> None:
    assert supported_features(Protocol(reader=1, writer=level)) == LEVELS[level]
    for start, features in combinations(LEVELS, 2):
        if level == features:
            found = raised(Protocol(reader=1, writer=start), *LEVELS[features])
            assert (found.writer, found.writer_features) == (level, frozenset())


def test_raising_lists_what_the_versions_said() -> None:
    found = raised(Protocol(reader=1, writer=4), "deletionVectors")
    assert found == Protocol(
        reader=3,
        writer=7,
        reader_features=frozenset({"deletionVectors"}),
        writer_features=frozenset(LEVELS[4] | {"deletionVectors"}),
    )
    mapped = raised(Protocol(reader=2, writer=5), "deletionVectors")
    assert mapped.reader_features == {"deletionVectors", "columnMapping"}
    quiet = raised(Protocol(reader=1, writer=2), "changeDataFeed")
    assert (quiet.reader, quiet.writer, quiet.reader_features) == (1, 7, frozenset())
    half = raised(Protocol(reader=2, writer=7, writer_features=frozenset({"columnMapping"})), "timestampNtz")
    assert half.reader_features == {"columnMapping", "timestampNtz"}


@given(
    st.sampled_from(
        [Protocol(reader=1, writer=2), Protocol(reader=1, writer=4), Protocol(reader=2, writer=6), _listed("appendOnly")]
    ),
    st.lists(st.sampled_from(sorted(WRITER_FEATURES)), max_size=4),
)
def test_raising_loses_nothing_and_is_done_once(protocol: Protocol, features: list[str]) -> None:
    found = raised(protocol, *features)
    assert supported_features(protocol) <= supported_features(found)
    assert all(supports(found, feature) for feature in features)
    assert raised(found, *features) is found
    assert found.reader == 3 or not found.reader_features
    assert found.reader_features <= found.writer_features
    if found.writer == 7:
        for_readers = READER_FEATURES & found.writer_features
        assert found.reader_features == for_readers or (found is protocol and found.reader < 3)


def test_a_preview_counts_as_its_feature() -> None:
    preview = _listed(readers=("variantType-preview",))
    assert supports(preview, "variantType")
    assert raised(preview, "variantType") is preview


@pytest.mark.parametrize(
    ("name", "configuration"),
    [
        ("appendOnly", {"delta.appendOnly": "true"}),
        ("changeDataFeed", {"delta.enableChangeDataFeed": "true"}),
        ("checkConstraints", {"delta.constraints.a": "x > 0"}),
        ("columnMapping", {"delta.columnMapping.mode": "id"}),
        ("deletionVectors", {"delta.enableDeletionVectors": "true"}),
        ("inCommitTimestamp", {"delta.enableInCommitTimestamps": "true"}),
        ("typeWidening", {"delta.enableTypeWidening": "true"}),
        ("v2Checkpoint", {"delta.checkpointPolicy": "v2"}),
        ("domainMetadata", {"delta.feature.domainMetadata": "supported"}),
    ],
)
def test_features_by_properties(name: str, configuration: dict[str, str]) -> None:
    assert needed_features(PLAIN, configuration) == {name}
    assert supports(needed_protocol(PLAIN, configuration), name)
    assert needed_features(PLAIN, {key: "false" for key, text in configuration.items() if text == "true"}) == set()


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("timestampNtz", StructField(name="a", type=ArrayType(element=PrimitiveType("timestamp_ntz")))),
        ("variantType", StructField(name="a", type=StructType(fields=(StructField(name="v", type=VARIANT),)))),
        ("invariants", StructField(name="a", type=PrimitiveType("long"), metadata={"delta.invariants": "{}"})),
        ("generatedColumns", StructField(name="a", type=PrimitiveType("long"), metadata={"delta.generationExpression": "1"})),
        ("allowColumnDefaults", StructField(name="a", type=PrimitiveType("long"), metadata={"CURRENT_DEFAULT": "1"})),
        ("typeWidening", StructField(name="a", type=PrimitiveType("long"), metadata={"delta.typeChanges": []})),
    ],
)
def test_features_by_columns(name: str, field: StructField) -> None:
    schema = StructType(fields=(field,))
    assert needed_features(schema, {}) == {name}
    assert supports(needed_protocol(schema, {}), name)


def test_a_plain_table_needs_little() -> None:
    assert needed_protocol(PLAIN, {}) == Protocol(reader=1, writer=2)
    assert needed_protocol(PLAIN, {"delta.minReaderVersion": "2"}) == Protocol(reader=2, writer=5)
    assert needed_protocol(PLAIN, {"delta.minWriterVersion": "4"}) == Protocol(reader=1, writer=4)
    assert needed_protocol(PLAIN, {"delta.minWriterVersion": "7"}) == _listed("appendOnly", "invariants")
    three = needed_protocol(PLAIN, {"delta.minReaderVersion": "3"})
    assert (three.reader, three.writer, three.reader_features) == (3, 7, frozenset())
    assert needed_features(PLAIN, {"delta.feature.clustering": "supported"}) == {"clustering", "domainMetadata"}


def test_wishes_that_cannot_be() -> None:
    with pytest.raises(NotSupported, match="icebergCompatV2"):
        needed_protocol(PLAIN, {"delta.feature.icebergCompatV2": "supported"})
    with pytest.raises(InvalidOption, match="deletionVector") as caught:
        needed_protocol(PLAIN, {"delta.feature.deletionVector": "supported"})
    assert "'deletionVectors'" in caught.value.fix
    for text in ("9", "0", "x"):
        with pytest.raises(InvalidOption, match="no version of the protocol"):
            needed_protocol(PLAIN, {"delta.minWriterVersion": text})
