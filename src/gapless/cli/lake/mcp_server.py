"""`lake mcp`: a lake for agents, by the Model Context Protocol on stdin and stdout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from gapless._version import __version__
from gapless.cli.options import argument, option
from gapless.cli.show.console import Plain, encode_json
from gapless.cli.show.rows import row_documents
from gapless.errors import GaplessError, InvalidOption, QueryLimitExceeded, nearest
from gapless.lake.lake import Lake
from gapless.lake.limits import LimitedAnswer, LimitedQuery, QueryLimits
from gapless.lake.opening import open_lake
from gapless.tables.shared.library_errors import missing_library

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

Made = TypeVar("Made")
AT_ONCE = 4
"""Queries at work; one that was stopped counts until DuckDB has let go of it."""
INSTRUCTIONS = (
    "Tables in a lake. Call describe first: it has the tables, their columns and each one's fingerprint. Then call query with SQL as DuckDB "
    "speaks it, and the fingerprints of the tables that it names; where columns have changed since it is refused: describe again. Nothing can "
    "be written. An answer whose truncated_by is not null has not all rows: aggregate, or ask for less."
)
_TEXT = {"type": "string"}
TOOLS: Mapping[str, tuple[str, Mapping[str, Any], tuple[str, ...]]] = {
    "describe": (
        "Tables with their columns and types, kind, key, schema fingerprint, view, snapshots and newest runs.",
        {"table": {**_TEXT, "description": "Only this table."}},
        (),
    ),
    "query": (
        "Answer one SELECT over the tables, as DuckDB speaks SQL. Read-only, with limits of rows, bytes, time and memory.",
        {
            "sql": {**_TEXT, "description": "One statement that selects; tables are known by their names."},
            "fingerprints": {
                "type": "object",
                "additionalProperties": _TEXT,
                "description": "Of each table that the SQL names, the fingerprint that describe gave.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "description": "Rows of the answer, where fewer than the server allows.",
            },
        },
        ("sql", "fingerprints"),
    ),
}
"""What each tool does, its arguments as JSON Schema, and those that it needs."""
_PYTHON: Mapping[str, type] = {"string": str, "object": dict, "integer": int}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a query may go."""

    rows: Annotated[int, option("N", "Rows of an answer at most; 1000.", least=1)] = 1000
    seconds: Annotated[float, option("S", "Seconds until a query is stopped; 30.")] = 30.0
    memory: Annotated[int, option("MIB", "MiB that a query may hold in memory; 1024.", least=16)] = 1024

    @property
    def parsed(self) -> QueryLimits:
        """As the lake takes them. Raises InvalidOption."""
        return QueryLimits(rows=self.rows, seconds=self.seconds, memory_bytes=self.memory << 20)


def mcp(root: Annotated[str, argument("PATH", "The lake: a directory of this machine.")], limits: Limits) -> None:
    """Serve a lake to agents by the Model Context Protocol on stdin and stdout, read-only: tools describe and query.

    Needs gapless[mcp]. An agent's host starts it, and ends it by closing its stdin.

    Example: gapless lake mcp warehouse --rows 200 --seconds 10
    """
    try:
        import anyio
        from mcp.server.stdio import stdio_server
    except ImportError as error:
        raise missing_library("requests of agents", "mcp", "mcp") from error
    server = make_server(LakeTools(lake=open_lake(root, read_only=True), limits=limits.parsed))

    async def serve() -> None:
        async with stdio_server() as (requests, answers):
            await server.run(requests, answers, server.create_initialization_options())

    anyio.run(serve)


@dataclass(slots=True, kw_only=True)
class LakeTools:
    """What agents may call, over one lake."""

    lake: Lake
    limits: QueryLimits
    _at_work: list[LimitedQuery] = field(default_factory=list)

    def describe(self, given: Mapping[str, Any]) -> dict[str, Plain]:
        """The lake, or the one `table`. Raises TableNotFound, NotReplicated, CorruptTable, StoreError."""
        told: dict[str, Any] = asdict(self.lake.describe())
        if "table" in given:
            name = self.lake.table(given["table"]).name
            told["tables"] = [one for one in told["tables"] if one["table"] == name]
        return {**told, "limits": asdict(self.limits)}

    def prepare(self, given: Mapping[str, Any]) -> LimitedQuery:
        """The query that is asked for. Raises as `lake.limited_query`."""
        for name, value in given["fingerprints"].items():
            if not isinstance(value, str):
                raise _refuse("fingerprints", f"the fingerprint of {name!r} is no text", "Give it as describe says it", value)
        limits = replace(self.limits, rows=min(given.get("limit", self.limits.rows), self.limits.rows))
        return self.lake.limited_query(given["sql"], fingerprints=given["fingerprints"], limits=limits)

    def admit(self, query: LimitedQuery) -> None:
        """Count a query as at work until it has ended. Raises QueryLimitExceeded where too many are."""
        self._at_work = [one for one in self._at_work if not one.ended]
        if len(self._at_work) >= AT_ONCE:
            raise QueryLimitExceeded(
                f"{AT_ONCE} queries are at work, and no more are begun",
                why="One that was stopped counts until DuckDB has let go of it",
                fix="Ask again later",
                limit="queries",
                sql=query.query.sql,
            )
        self._at_work.append(query)


def parse_arguments(tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call. Raises InvalidOption for those that the tool does not know, that lack or are of another type."""
    _, known, needed = TOOLS[tool]
    for name, value in given.items():
        if name not in known:
            raise _refuse(name, f"{tool} takes no {name!r}", nearest(name, known), value)
        kind = _PYTHON[known[name]["type"]]
        if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, int) and value < 1):
            raise _refuse(name, f"{name}={value!r} of {tool} is not of its type", f"Give {known[name]['type']}", value)
    for name in needed:
        if name not in given:
            raise _refuse(name, f"{tool} lacks {name!r}", f"Give {', '.join(needed)}", None)
    return dict(given)


def answer_document(answer: LimitedAnswer) -> dict[str, Plain]:
    """An answer as JSON's values. Raises InvalidOption where two columns have one name."""
    return {
        "columns": [{"name": one.name, "type": str(one.type)} for one in answer.table.schema],
        "rows": row_documents(answer.table),
        "row_count": answer.table.num_rows,
        "truncated_by": answer.truncated_by,
    }


def make_server(tools: LakeTools) -> Server[Any]:
    """The protocol's server over them."""
    import anyio.to_thread
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=text,
                    input_schema={
                        "type": "object",
                        "properties": dict(known),
                        "required": list(needed),
                        "additionalProperties": False,
                    },
                    annotations=types.ToolAnnotations(
                        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
                    ),
                )
                for name, (text, known, needed) in TOOLS.items()
            ]
        )

    async def call(name: str, given: Mapping[str, Any]) -> dict[str, Plain]:
        arguments = parse_arguments(name, given)
        if name == "describe":
            return await in_thread(lambda: tools.describe(arguments))
        query = await in_thread(lambda: tools.prepare(arguments))
        tools.admit(query)
        try:
            return await in_thread(lambda: answer_document(query.run()))
        finally:
            query.interrupt()  # it has ended, or whoever asked has cancelled it

    async def in_thread(work: Callable[[], Made]) -> Made:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}. {nearest(params.name, TOOLS)}")
        try:
            told, failed = await call(params.name, params.arguments or {}), False
        except GaplessError as error:
            told, failed = {"error": error.code, "what": error.what, "why": error.why, "fix": error.fix}, True
        text = types.TextContent(type="text", text=encode_json(told).decode())
        return types.CallToolResult(content=[text], structured_content=told, is_error=failed)

    return Server(
        "gapless-lake", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


def _refuse(name: str, what: str, fix: str, value: object) -> InvalidOption:
    return InvalidOption(what, fix=fix, option=name, value=value)
