"""The public names are a list, and importing them costs little."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import statistics
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import gapless
from gapless import errors
from gapless.tables import delta

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
HEAVY = ("pyspark", "pandas", "polars", "duckdb", "matplotlib", "sqlglot", "typer", "rich", "obstore", "pyarrow.dataset")


def test_all_names_exist_and_are_documented() -> None:
    for name in gapless.__all__:
        thing = getattr(gapless, name)
        if callable(thing):
            assert inspect.getdoc(thing), f"{name} has no docstring"


def test_the_list_the_loader_and_the_types_name_the_same() -> None:
    typed = re.search(r"if TYPE_CHECKING:\n(.*?)\n\n", Path(gapless.__file__).read_text(), re.DOTALL)
    assert typed is not None
    names = set(re.findall(r"\w+", re.sub(r"from \S+ import|#.*", "", typed[1])))
    assert names == set(gapless.__all__) == set(dir(gapless))


def test_the_names_of_delta_tables_are_the_same_in_each_list() -> None:
    typed = re.search(r"if TYPE_CHECKING:\n(.*?)\n\n", Path(str(delta.__file__)).read_text(), re.DOTALL)
    assert typed is not None
    names = set(re.findall(r"\w+", re.sub(r"from \S+ import|#.*", "", typed[1])))
    assert names == set(delta.__all__) == set(dir(delta))
    assert gapless.delta is delta


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    for package in (gapless, delta):
        with pytest.raises(AttributeError, match="no attribute 'opne'"):
            package.opne  # noqa: B018


def test_methods_of_the_table_say_what_goes_in_and_out() -> None:
    for kind in (gapless.TimeSeriesTable, delta.DeltaTable, delta.Alter):
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_"):
                assert inspect.getdoc(member), f"{kind.__name__}.{name} has no docstring"


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_loads_nothing_heavy() -> None:
    loaded = run_python("import sys, gapless; print(*sorted(sys.modules))").split()
    found = [name for name in HEAVY if name in loaded]
    assert not found, f"import gapless loads {found}"


def test_a_table_on_disk_opens_without_what_it_does_not_need(tmp_path: Path) -> None:
    code = f"""
import sys, gapless as gl
import pyarrow as pa
table = gl.create({str(tmp_path / "t")!r}, index="n", index_type="int64", bucket=1)
gl.spark.read, gl.spark.write
gl.delta.create({str(tmp_path / "d")!r}, pa.schema([("n", pa.int64())]))
print(*sorted(sys.modules))
"""
    found = set(HEAVY) & set(run_python(code).split())
    assert found <= {"obstore"}, f"making a table loads {found}"


@pytest.mark.parametrize(("kind", "other", "most"), [("delta", "timeseries", 256), ("timeseries", "delta", 236)])
def test_a_kind_of_table_loads_nothing_of_the_other(kind: str, other: str, most: int) -> None:
    """Neither when it is imported, nor when a table is made, refused, written, read, changed and looked after; `most` are modules of ours."""
    uses = {
        "delta": "gapless.delta.create('memory://kinds', pa.schema([('n', pa.int64())]))",
        "timeseries": "gapless.create('memory://kinds', index='n', index_type='int64', bucket=1)",
    }
    code = f"""
import sys, gapless, gapless.tables.{kind}.table, pyarrow as pa
ours = [name for name in sys.modules if name.partition(".")[0] == "gapless"]
table = {uses[kind]}
table.append({{"n": [1, 2, 3]}})
table.delete("n > 2")
table.scan().to_arrow(), table.sql("FROM this").count(), table.at(1).count(), table.history()
table.compact(), table.vacuum(), table.restore(1), table.verify()
try:
    {uses[kind]}
except gapless.errors.TableExists:
    pass
print(len(ours), *sorted(sys.modules))
"""
    count, *loaded = run_python(code).split()
    strange = [name for name in loaded if name.startswith((f"gapless.tables.{other}.", f"gapless.formats.{other}."))]
    assert not strange, f"tables of kind {kind} load {strange}"
    assert int(count) <= most, f"importing tables of kind {kind} loads {count} modules"


def test_import_costs_little_more_than_pyarrow_parquet() -> None:
    """At most 1.5 times, as the median of interleaved runs of CPU time, which other processes disturb least."""
    clock = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"
    ours, floor = [], []
    for _ in range(5):
        floor.append(float(run_python(clock.format("pyarrow.parquet"))))
        ours.append(float(run_python(clock.format("gapless"))))
    assert statistics.median(ours) <= 1.5 * statistics.median(floor)


def error_classes() -> list[type[errors.GaplessError]]:
    return [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, errors.GaplessError)]


def test_codes_are_distinct_and_in_the_tree() -> None:
    classes = error_classes()
    assert len({c.code for c in classes}) == len(classes)
    drawn = set(re.findall(r"\b[A-Z]\w+", (errors.__doc__ or "").split("```")[1]))
    assert {c.__name__ for c in classes} - {"GaplessError"} <= drawn


def test_every_name_that_a_docstring_raises_can_be_imported() -> None:
    known = {c.__name__ for c in error_classes()} | {name for name in dir(builtins) if name.endswith("Error")}
    for path in Path(gapless.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        here = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
        documented = (node for node in nodes if isinstance(node, DOCUMENTED))
        for doc in filter(None, map(ast.get_docstring, documented)):
            for names in re.findall(r"[Rr]aises?:?\s+((?:[A-Z]\w+(?:,| and| or)?\s*)+)", doc):
                for name in re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", names):
                    assert name in known | here, f"{path.name} says it raises {name}, which is no error"


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_errors_survive_pickling(kind: type[errors.GaplessError]) -> None:
    import pickle

    error = kind("what", why="why", fix="fix", path="p", version=3)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == "what. why. fix."
    assert again.facts == error.facts
    assert vars(again)["path"] == "p"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("gapless.testing", "StoreContract"),
        ("gapless.testing.store", "StoreContract"),
        ("gapless.testing", "SinkContract"),
        ("gapless.testing.connect", "SourceContract"),
        ("gapless.testing.simulation", "simulate"),
        ("gapless.testing.dict_store", "DictStore"),
        ("gapless.testing.faulty", "Faults"),
        ("gapless.testing.faulty", "SimStore"),
        ("gapless.testing.draw", "draw_scenario"),
        ("gapless.testing.timeline", "Timeline"),
        ("gapless.testing.delta.kind", "DELTA_TABLE"),
    ],
)
def test_documented_names_of_testing_stay_importable(module: str, name: str) -> None:
    assert getattr(import_module(module), name) is not None


def test_all_names_of_testing_are_there() -> None:
    testing = import_module("gapless.testing")
    assert {name: getattr(testing, name) for name in testing.__all__}
    assert dir(testing) == sorted(testing.__all__)
