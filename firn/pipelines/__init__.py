"""Plans of pipelines: which rows of a query can differ after its inputs changed, and SQL that computes only these.

    from firn.pipelines import incremental

    plan = incremental("SELECT city, count(*) AS n FROM trip GROUP BY city", {"trip": {"city": "int"}})
    plan.scope              # ("city",)
    plan.affected({"trip"}) # SQL of the cities whose rows may differ
    plan.rows()             # SQL of the rows of these cities

The package only plans. It reads no table and needs neither a server nor Spark. It needs sqlglot: `pip install
'firn[pipelines]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.errors import FirnError
from firn.lazy_names import load_name

if TYPE_CHECKING:
    from firn.pipelines.cases import read_cases
    from firn.pipelines.dbt_import import import_dbt
    from firn.pipelines.explain import explain_reason, explain_table, write_table
    from firn.pipelines.folder import read_folder
    from firn.pipelines.hudi_import import import_hudi
    from firn.pipelines.plan import Plan, Strategy
    from firn.pipelines.planner import incremental
    from firn.pipelines.put import StoredQuery, build_put
    from firn.pipelines.settings import read_schema
    from firn.pipelines.table_plans import TablePlan, plan_pipeline
    from firn.pipelines.types import read_spark_type

__all__ = [
    "Plan",
    "StoredQuery",
    "Strategy",
    "TablePlan",
    "build_put",
    "explain_reason",
    "explain_table",
    "import_dbt",
    "import_hudi",
    "incremental",
    "plan_pipeline",
    "read_cases",
    "read_folder",
    "read_schema",
    "read_spark_type",
    "write_table",
]

_MODULES = {
    "firn.pipelines.cases": ("read_cases",),
    "firn.pipelines.dbt_import": ("import_dbt",),
    "firn.pipelines.explain": ("explain_reason", "explain_table", "write_table"),
    "firn.pipelines.folder": ("read_folder",),
    "firn.pipelines.hudi_import": ("import_hudi",),
    "firn.pipelines.plan": ("Plan", "Strategy"),
    "firn.pipelines.planner": ("incremental",),
    "firn.pipelines.put": ("StoredQuery", "build_put"),
    "firn.pipelines.settings": ("read_schema",),
    "firn.pipelines.table_plans": ("TablePlan", "plan_pipeline"),
    "firn.pipelines.types": ("read_spark_type",),
}


def __getattr__(name: str) -> object:
    try:
        return load_name(__name__, _MODULES, name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sqlglot":
            raise
        raise FirnError("sqlglot is not installed", hint="pip install 'firn[pipelines]'") from error
