"""Runs the Python of a pipeline's table: functions that give its rows, views, transforms and validators.

The code runs in this process, with all of its rights. Only two call it: an optimizer that was started with
`--allow-code`, and `firn pipeline test` on the machine of the user.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.sql import DataFrame, SparkSession

from firn.errors import FirnError, Invalid
from firn.pipelines.definition import qualify_name
from firn.protocol.names import join_name
from firn.protocol.pipeline_code import CodeFunction, CodeTransform, TableCode
from firn.spark.errors import reason
from firn.spark.folder_modules import FolderModules
from firn.spark.pinned_session import PinnedSession, use_session

_LONGEST = 1_000


@dataclass(frozen=True)
class CodeContext:
    """What a transform learns of its run. `mode` is `full`, `incremental` or `append`.

    `scope` are the columns by whose values an incremental run computes rows.
    """

    pipeline: str = ""
    table: str = ""
    run: str = ""
    mode: str = "full"
    scope: tuple[str, ...] = ()
    log: Callable[[str], None] = lambda _: None


@dataclass(frozen=True)
class CodeRunner:
    """The code of one table. `catalog` is the name that its tables may have in front."""

    spark: SparkSession
    code: TableCode
    texts: Mapping[str, str]
    catalog: str | None = None

    def compute(self, query: str, frames: Mapping[str, DataFrame]) -> DataFrame:
        """The rows of the function, or of the query, over these tables. Raises Invalid with what the code did wrong."""
        relations = _Relations(self, frames)
        with use_session(relations.session), graph_element_registration_context(relations.registry):
            function = self.code.function
            if function is not None:
                return relations.call(function)
            return relations.run_query("the query", query)

    def transform(self, rows: DataFrame, context: CodeContext) -> DataFrame:
        """The rows after all transforms."""
        for entry in self.code.transforms:
            rows = self._apply(entry, rows, context)
        return rows

    def _apply(self, entry: CodeTransform, rows: DataFrame, context: CodeContext) -> DataFrame:
        relations = _Relations(self, None)
        with use_session(relations.session), graph_element_registration_context(relations.registry):
            return relations.call(entry.function, relations.session, rows, context)


def run_validator(
    spark: SparkSession, function: CodeFunction, texts: Mapping[str, str], audited: DataFrame, changed: DataFrame
) -> Any:
    """What a validator in Python returns: `function(spark, audited, changed)`."""
    relations = _Relations(CodeRunner(spark, TableCode(), texts), None)
    with use_session(relations.session), graph_element_registration_context(relations.registry):
        return relations.call_any(function, relations.session, audited, changed)


class _Functions(GraphElementRegistry):
    """The functions that decorators of `pyspark.pipelines` took from the files, by name."""

    def __init__(self) -> None:
        self.functions: dict[str, Any] = {}

    def register_flow(self, flow: Any) -> None:
        self.functions[flow.func.__name__] = flow.func

    def register_output(self, output: Any) -> None:
        """The definition has these facts already."""

    def register_sql(self, sql_text: str, file_path: Any) -> None:
        """No file calls this."""


@dataclass
class _Relations:
    """What the code of one call may read: tables of the run, and views. `frames` is None for code that reads none."""

    runner: CodeRunner
    frames: Mapping[str, DataFrame] | None
    views: dict[str, DataFrame] = field(default_factory=dict)
    registry: _Functions = field(default_factory=_Functions)
    opening: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session = PinnedSession.of(self.runner.spark, self.find)
        self.modules = FolderModules(self.runner.texts)

    def find(self, parts: Sequence[str]) -> DataFrame:
        """The rows of a table or view."""
        name = join_name(parts)
        views = {view.name.lower() for view in self.runner.code.views}
        if len(parts) == 1 and parts[0].lower() in views:
            return self._find_view(parts[0].lower())
        if self.frames is None:
            hint = "join the table in the query before it"
            raise Invalid(f"{name}: a transform or validator reads no tables", hint=hint)
        full = qualify_name(parts, self.runner.catalog, self.runner.code.namespace)
        known = {table.lower(): table for table in self.frames}
        if full.lower() not in known:
            hint = f"name it by a literal in the function, or list it in `reads` of the table: {', '.join(self.frames)}"
            raise Invalid(f"{name} is not among the tables that this function was seen to read", hint=hint)
        return self.frames[known[full.lower()]]

    def _find_view(self, name: str) -> DataFrame:
        if name in self.opening:
            raise Invalid(f"the temporary views read each other: {' → '.join([*self.opening, name])}")
        if name not in self.views:
            view = next(view for view in self.runner.code.views if view.name.lower() == name)
            self.opening.append(name)
            if view.function is not None:
                self.views[name] = self.call(view.function)
            else:
                self.views[name] = self.run_query(f"the temporary view {view.name}", view.query or "")
            self.opening.pop()
        return self.views[name]

    def run_query(self, step: str, query: str) -> DataFrame:
        with _explain(step, ""):
            return self.session.sql(query)

    def call(self, function: CodeFunction, *arguments: Any) -> DataFrame:
        """The rows that a function returns. Raises Invalid for anything else than a DataFrame of a batch."""
        result = self.call_any(function, *arguments)
        where = f"{function.path}: {function.name}()"
        if not isinstance(result, DataFrame):
            raise Invalid(f"{where} returned {type(result).__name__}, no DataFrame", hint="return a DataFrame of Spark")
        if result.isStreaming:
            raise Invalid(f"{where} returned a stream", hint="write CREATE STREAMING TABLE in SQL")
        names = [name.lower() for name in result.columns]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise Invalid(f"{where} returned two columns named {repeated}", hint="rename one of them")
        return result

    def call_any(self, function: CodeFunction, *arguments: Any) -> Any:
        with _explain(f"{function.name}()", function.path):
            module = self.modules.load(function.path)
            called = self.registry.functions.get(function.name) or getattr(module, function.name, None)
            if not callable(called):
                raise Invalid(f"{function.path} has no function {function.name}")
            return called(*arguments)


@contextmanager
def _explain(step: str, path: str) -> Iterator[None]:
    """Turn what the user's code raises into one error with its place."""
    try:
        yield
    except FirnError as error:
        place = _find_place(error, path)
        if not place:
            raise
        raise Invalid(f"{place}: {error.message}", hint=error.hint) from error
    except PySparkException as error:
        raise Invalid(f"{_find_place(error, path) or path or step}: {step}: {reason(error)[:_LONGEST]}") from error
    except (Exception, SystemExit) as error:
        text = f"{type(error).__name__}: {str(error)[:_LONGEST]}" if str(error) else type(error).__name__
        raise Invalid(f"{_find_place(error, path) or path or step}: {step} raised {text}") from error


def _find_place(error: BaseException, path: str) -> str:
    """The last line of the user's file on the way to the error."""
    if not path:
        return ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f"{path}, line {lines[-1]}" if lines else ""
