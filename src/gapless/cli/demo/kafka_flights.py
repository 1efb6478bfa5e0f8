"""`demo pipeline`: flights through a Kafka broker and a pipeline in SQL, into a time-series and a Delta table."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from gapless.cli.demo.broker import broker_jars, kafka_broker
from gapless.cli.demo.steps import print_code, print_step, run_command
from gapless.cli.show.console import print_line, print_table
from gapless.errors import NotSupported
from gapless.spark.setup.start import find_java
from gapless.tables.delta.table import DeltaTable
from gapless.tables.timeseries.table import TimeSeriesTable

OUTPUTS = ("flights.sql", "gapless.toml", ".gapless", "broker", "departures", "carriers", "departures.png", "departures.html")
"""What it makes in the demo's folder."""
_COLUMNS = {"carrier": str, "flight": int, "origin": str, "dest": str, "dep_delay": int, "time_hour": str}
SQL = """-- Each flight once, from Kafka into two tables.
CREATE SOURCE flights (carrier STRING, flight INT, origin STRING, dest STRING, dep_delay INT, time_hour TIMESTAMP)
WITH (type = 'kafka', bootstrap_servers = '{brokers}', topic = 'flights', max_records = 100000);

CREATE VIEW departed AS
SELECT time_hour, origin, dest, carrier, flight, dep_delay FROM flights WHERE dep_delay IS NOT NULL;

CREATE SINK departures
WITH (type = 'timeseries', location = '{out}/departures', index = 'time_hour', entity = 'origin', bucket = '1h') AS
SELECT * FROM departed;

CREATE SINK carriers WITH (type = 'delta', location = '{out}/carriers', key = 'carrier') AS
SELECT carrier, count(*) AS flights, count(dep_delay) AS departed, sum(dep_delay) AS delay_minutes
FROM flights GROUP BY carrier;
"""
_TOML = """[pipelines]
master = "local[2]"

[pipelines.spark]
"spark.jars.ivy" = "{ivy}"
"spark.driver.memory" = "1g"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flights:
    """The flights of some days, in their order."""

    records: Sequence[bytes]
    """JSON objects."""
    by_carrier: Counter[str]
    departed: int


def read_flights(source: Path, days: int) -> Flights:
    """Those of the first so many days of the zip of the demo's data, counted by Python alone."""
    records: list[bytes] = []
    carriers, departed, seen = Counter[str](), 0, set[date]()
    with zipfile.ZipFile(source) as packed, packed.open(packed.namelist()[0]) as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline="")):
            day = date(int(row["year"]), int(row["month"]), int(row["day"]))
            if day not in seen and len(seen) == days:
                continue
            seen.add(day)
            values = {name: None if row[name] == "NA" else kind(row[name]) for name, kind in _COLUMNS.items()}
            records.append(json.dumps(values).encode())
            carriers[row["carrier"]] += 1
            departed += values["dep_delay"] is not None
    return Flights(records=records, by_carrier=carriers, departed=departed)


def show_pipeline(source: Path, out: Path, *, days: int, jars: Path) -> None:
    """Start a broker, send the flights in two halves, run the pipeline after each, and hold the tables against the raw file.

    `jars` is where the jars of the broker and of Spark's connector lie, or are put. Raises NotSupported where something is not installed,
    SparkNotStarted where a jar is not to be had.
    """
    check_installed()
    java = find_java(os.environ)
    print_step("A Kafka broker is started on this machine. Its jars come from Maven Central, the first time.")
    where = broker_jars(java, jars)
    with kafka_broker(java, where, out / "broker") as brokers:
        print_line(f"It listens on {brokers}; {len(list(where.glob('*.jar')))} jars in {where}")
        _show(read_flights(source, days), out.absolute(), brokers, jars.absolute())


def check_installed() -> None:
    """Raise NotSupported for the first package that is not installed."""
    for module, extra in (("pyspark", "spark"), ("confluent_kafka", "kafka")):
        if importlib.util.find_spec(module) is None:
            raise NotSupported(
                "the demo of pipelines cannot run here",
                why=f"{module} is not installed",
                fix="pip install 'gapless[spark,kafka,plot]'; `gapless doctor` looks at the rest",
                feature=extra,
            )


def _show(flights: Flights, out: Path, brokers: str, jars: Path) -> None:
    sql = SQL.format(brokers=brokers, out=out)
    (out / "flights.sql").write_text(sql, encoding="utf-8")
    (out / "gapless.toml").write_text(_TOML.format(ivy=jars / "ivy"), encoding="utf-8")
    half = len(flights.records) // 2
    print_step(f"{half:,} of {len(flights.records):,} flights of 2013 are sent to the topic, a JSON object each.")
    send(brokers, flights.records[:half])
    print_step("One file of SQL says what becomes of them:")
    print_code(sql, "sql")
    print_step("Spark runs it: all that is there, each record once, into both tables.")
    run_command("run", out / "flights.sql")
    print_step("The other flights come, and it is run again: it goes on where it was.")
    send(brokers, flights.records[half:])
    run_command("run", out / "flights.sql")
    _show_sums(flights, out)
    _show_coverage(out)


def send(brokers: str, records: Iterable[bytes]) -> None:
    """Send records to the topic, and wait until the broker has them."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    for record in records:
        producer.produce("flights", record)
        producer.poll(0)
    left = producer.flush(120)
    if left:
        raise AssertionError(f"the broker did not take {left} records")


def _show_sums(flights: Flights, out: Path) -> None:
    print_step("Is each flight there, and only once? The tables beside the raw file, whose rows Python counted.")
    departed = TimeSeriesTable.open(out / "departures").count()
    rows = DeltaTable.open(out / "carriers").scan().to_arrow().to_pylist()
    carriers = {row["carrier"]: row["flights"] for row in rows}
    told = [
        ("departures", f"{flights.departed:,}", f"{departed:,}"),
        ("flights by carrier", f"{flights.by_carrier.total():,}", f"{sum(carriers.values()):,}"),
        ("carriers", str(len(flights.by_carrier)), str(len(carriers))),
    ]
    print_table(("", "raw file", "tables"), told)
    if departed != flights.departed or carriers != dict(flights.by_carrier):
        raise AssertionError("the tables do not hold what the raw file does")


def _show_coverage(out: Path) -> None:
    print_step("What do we have? The hours with departures, in two weeks of January; the nights are missing.")
    picture = out / f"departures.{'png' if importlib.util.find_spec('matplotlib') else 'html'}"
    span = ("--start", "2013-01-02T05:00Z", "--until", "2013-01-16T05:00Z")
    run_command("coverage", out / "departures", *span, "--plot", picture, python='table.coverage("2013-01-02T05:00Z", …)')
