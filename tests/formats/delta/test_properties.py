"""Table properties: values with meaning, and what users may set."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import InvalidOption, NotSupported, UnsupportedTable
from gapless.formats.delta.properties import (
    Settings,
    check_property_name,
    constraints_of,
    parse_properties,
    stored,
)
from gapless.formats.delta.property_values import interval_text, parse_columns, parse_interval, parse_size


def test_defaults() -> None:
    settings = Settings.of({"whatever": "x", "delta.unheard.of": "y"})
    assert settings == Settings()
    assert (settings.isolation, settings.checkpoint_interval, settings.indexed_columns) == ("WriteSerializable", 100, 32)
    assert (settings.log_retention, settings.deleted_file_retention) == (timedelta(days=30), timedelta(days=7))


def test_values() -> None:
    settings = Settings.of(
        {
            "delta.appendOnly": "TRUE",
            "delta.isolationLevel": "serializable",
            "delta.checkpointInterval": "7",
            "delta.checkpointPolicy": "v2",
            "delta.enableDeletionVectors": "true",
            "delta.columnMapping.mode": "name",
            "delta.columnMapping.maxColumnId": "12",
            "delta.logRetentionDuration": "interval 12 hours 30 minutes",
            "delta.setTransactionRetentionDuration": "2 DAYS",
            "delta.dataSkippingStatsColumns": "a,`b.c`.d",
            "delta.targetFileSize": "128mb",
            "delta.inCommitTimestampEnablementVersion": "3",
        }
    )
    assert settings == Settings(
        append_only=True,
        isolation="Serializable",
        checkpoint_interval=7,
        checkpoint_policy="v2",
        deletion_vectors=True,
        column_mapping="name",
        max_column_id=12,
        log_retention=timedelta(hours=12, minutes=30),
        txn_retention=timedelta(days=2),
        stats_columns=(("a",), ("b.c", "d")),
        target_file_size=128 << 20,
        in_commit_timestamps_since=3,
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("delta.checkpointInterval", "0"), ("delta.checkpointInterval", "ten"), ("delta.appendOnly", "yes"),
        ("delta.columnMapping.mode", "uuid"), ("delta.logRetentionDuration", "1 month"), ("delta.logRetentionDuration", "soon"),
        ("delta.isolationLevel", "Snapshot"), ("delta.checkpointPolicy", "v3"), ("delta.targetFileSize", "big"),
    ],
)  # fmt: skip
def test_a_value_without_meaning_is_told(name: str, text: str) -> None:
    with pytest.raises(UnsupportedTable, match="has no meaning here") as caught:
        Settings.of({name: text})
    assert caught.value.needs == f"{name}={text}"
    with pytest.raises(InvalidOption, match="cannot be"):
        parse_properties({name: text})


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("interval 30 days", timedelta(days=30)),
        ("INTERVAL 1 Week", timedelta(weeks=1)),
        ("1 day 2 hours 3 minutes 4 seconds 5 milliseconds 6 microseconds", timedelta(1, 4, 6, 5, 3, 2)),
        ("1.5 seconds", timedelta(seconds=1.5)),
        ("interval 0 days", timedelta(0)),
        (" interval  2  weeks ", timedelta(weeks=2)),
    ],
)
def test_intervals(text: str, length: timedelta) -> None:
    assert parse_interval(text) == length


@given(st.timedeltas(min_value=timedelta(0)))
def test_an_interval_comes_back(length: timedelta) -> None:
    assert parse_interval(interval_text(length)) == length


@pytest.mark.parametrize(
    "text", ["", "interval", "1", "days", "-1 days", "1 fortnight", "1 year", "1e3 days", "999999999999 weeks"]
)
def test_no_interval(text: str) -> None:
    with pytest.raises(ValueError, match="interval"):
        parse_interval(text)


def test_sizes_and_columns() -> None:
    assert [parse_size(text) for text in ("1", "1b", "2 kb", "3K", "1gb", "1T")] == [1, 1, 2048, 3072, 1 << 30, 1 << 40]
    assert parse_columns("") == ()
    assert parse_columns(" a.b , `x``y,z` ") == (("a", "b"), ("x`y,z",))
    assert parse_columns("a b, c") == (("a b",), ("c",))
    for text in (",", "a,", "a..b", "`a", "a`b`", ".a"):
        with pytest.raises(ValueError, match="no list of columns"):
            parse_columns(text)
    for text in ("0", "-1", "1pb", "x"):
        with pytest.raises(ValueError, match="no size"):
            parse_size(text)


def test_what_users_may_set() -> None:
    given_properties = {
        "DELTA.APPENDONLY": True,
        "delta.logRetentionDuration": timedelta(days=3),
        "delta.checkpointInterval": 5,
        "delta.enableChangeDataFeed": "TRUE",
        "delta.autoOptimize.autoCompact": "auto",
        "delta.feature.deletionVectors": "supported",
        "delta.minReaderVersion": 2,
        "delta.enableRowTracking": False,
        "owner": "me",
    }
    found = parse_properties(given_properties)
    assert found == {
        "delta.appendOnly": "true",
        "delta.logRetentionDuration": "interval 3 days",
        "delta.checkpointInterval": "5",
        "delta.enableChangeDataFeed": "true",
        "delta.autoOptimize.autoCompact": "auto",
        "delta.feature.deletionVectors": "supported",
        "delta.minReaderVersion": "2",
        "delta.enableRowTracking": "false",
        "owner": "me",
    }
    assert set(found) - set(stored(found)) == {"delta.feature.deletionVectors", "delta.minReaderVersion"}


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("delta.apendOnly", "'delta.appendOnly'"),
        ("appendOnly", "'delta.appendOnly'"),
        ("delta.columnMapping.maxColumnId", "Leave it out"),
        ("", "Give it a name"),
    ],
)
def test_an_unknown_name_is_refused(name: str, fix: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        parse_properties({name: "1"})
    assert fix in caught.value.fix
    with pytest.raises(InvalidOption):
        check_property_name(name)


@pytest.mark.parametrize(
    "name",
    ["delta.enableRowTracking", "delta.enableIcebergCompatV2", "delta.coordinatedCommits.tableConf-preview",
     "delta.randomizeFilePrefixes"],
)  # fmt: skip
def test_promises_that_would_not_be_kept_are_refused(name: str) -> None:
    with pytest.raises(NotSupported) as caught:
        parse_properties({name: "true"})
    assert caught.value.feature == name


@pytest.mark.parametrize("value", [None, 1.5, b"x", [1], timedelta(days=-1)])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(InvalidOption, match=r"delta\.appendOnly"):
        parse_properties({"delta.appendOnly": value})


def test_constraints() -> None:
    with pytest.raises(InvalidOption, match="checked against") as caught:
        parse_properties({"delta.constraints.Positive": "x > 0"})
    assert "add_constraint" in caught.value.fix
    found = parse_properties({"delta.constraints.Positive": "x > 0"}, constraints=True)
    assert found == {"delta.constraints.positive": "x > 0"}
    assert constraints_of({**found, "a": "b"}) == {"positive": "x > 0"}
    with pytest.raises(InvalidOption):
        parse_properties({"delta.constraints.x": " "}, constraints=True)
