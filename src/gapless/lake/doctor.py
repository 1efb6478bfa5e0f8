"""What is not as the manifests of a lake say: leftovers, files that are missing or altered, a catalog that says more, changed exports."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gapless.errors import LogWarning, ObjectNotFound
from gapless.lake.catalog.catalog import Catalog
from gapless.lake.export.exports import FOLDERS, wrong_exports
from gapless.lake.layout.manifest import MANIFEST, RECEIPT, RunFile
from gapless.lake.layout.partitions import is_within
from gapless.lake.sync.side import read_head
from gapless.lake.table import LakeTable
from gapless.model.protocols import WRITER_HORIZON_NS, ObjectInfo
from gapless.runtime.environment import Environment

Code = Literal["file-missing", "file-altered", "manifest-damaged", "catalog-ahead", "export-differs", "leftover"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFinding:
    """One thing that is not as the manifests say."""

    code: Code
    path: str
    """The object it is about, below the lake's root; of `catalog-ahead` the run's folder."""
    what: str
    """One sentence for people."""
    problem: bool = True
    """Whether rows are lost or cannot be read; else it is what an interrupted writer may leave."""
    mended: bool = False
    """Whether it was removed now."""


def examine(env: Environment, catalog: Catalog, table: LakeTable, *, deep: bool, apply: bool) -> Iterator[LakeFinding]:
    """What is found of one table. `deep` reads all files and compares them with their checksums; `apply` removes what a writer left that began
    more than a day ago, and what the catalog says of runs that are gone. Raises StoreError.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)
        manifests, snapshots = table.manifests(), table.snapshots()
    head = read_head(env)
    here = None if head is None else head.partitions.get(table.name)
    named = {f"{one.folder}/{RECEIPT}" for one in manifests}
    named |= {one.path for one in manifests} | {one.path for one in snapshots}
    for one in manifests:
        yield from _files(env, one.folder, (*one.files, *one.quarantined), named, deep=deep)
    for snapshot in snapshots:
        files = tuple(one for one in snapshot.files if here is None or is_within(one.path, here))
        yield from _files(env, snapshot.folder, files, named, deep=deep)
        named |= {f"{run.folder}/{file.path}" for run in snapshot.runs for file in run.quarantined}
    there = {(one.run, one.node) for one in manifests} | {(run.run, run.node) for one in snapshots for run in one.runs}
    # A catalog of several copies has runs of the others, too.
    for run, node in sorted(catalog.known_runs(table.name) - there) if not catalog.shared else ():
        path = f"tables/{table.name}/data/runs/run-{run}/{node}"
        if apply:
            catalog.forget_run(table.name, run, node)
        what = f"meta.sqlite has run {run} of node {node!r}, and neither its manifest nor a snapshot with it is there"
        yield LakeFinding(code="catalog-ahead", path=path, what=what, mended=apply)
    for format_, what in wrong_exports(table.folder, table.history, {one.name: one for one in snapshots}):
        path = f"tables/{table.name}/{FOLDERS[format_]}"
        text = f"{table.name} is exported as {format_}, which is not as the lake is: {what}; gapless lake export --mend describes it anew"
        yield LakeFinding(code="export-differs", path=path, what=text)
    for info in list(env.store.list(f"tables/{table.name}/data")):
        if info.path not in named:
            yield _unnamed(env, info, apply=apply, copied=head is not None)


def _files(env: Environment, folder: str, files: tuple[RunFile, ...], named: set[str], *, deep: bool) -> Iterator[LakeFinding]:
    for file in files:
        path = f"{folder}/{file.path}"
        named.add(path)
        try:
            size = env.store.head(path).size
            altered = size != file.size or (deep and hashlib.sha256(env.store.get(path)).hexdigest() != file.sha256)
        except ObjectNotFound:
            yield LakeFinding(code="file-missing", path=path, what=f"{path} is gone, with {file.rows} rows")
            continue
        if altered:
            yield LakeFinding(code="file-altered", path=path, what=f"{path} has other bytes than its manifest says")


def _unnamed(env: Environment, info: ObjectInfo, *, apply: bool, copied: bool) -> LakeFinding:
    # In a copy the head says which manifests there are.
    if not copied and info.path.endswith(f"/{MANIFEST}"):
        return LakeFinding(
            code="manifest-damaged",
            path=info.path,
            what=f"{info.path} does not count: it is torn or altered, or its commit never came",
        )
    old = env.clock.now_ns() - info.modified_ns > WRITER_HORIZON_NS
    if old and apply:
        env.store.delete(info.path)
    return LakeFinding(
        code="leftover",
        path=info.path,
        what=f"{info.path} is named by no manifest" + ("" if old else ", and may belong to a run that is at work"),
        problem=False,
        mended=old and apply,
    )
