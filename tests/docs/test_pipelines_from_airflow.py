"""The page about Airflow and Dagster: its options and names are those of the code.

tests/integration/schedulers runs its programs in both products.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import firn.integrations.airflow
import firn.integrations.dagster
from firn.integrations.runs import FACTS, summarize_run
from firn.integrations.steps import PATIENCE_SECONDS
from firn.protocol.pipelines import RunOut, RunRequest
from tests.docs.blocks import DOCS, blocks
from tests.firn.integrations.scripted import a_run

PAGE = (DOCS / "pipelines-from-airflow.md").read_text("utf-8")
CODE = Path(firn.integrations.airflow.__file__).parents[1]


def list_options(file: Path, name: str) -> set[str]:
    """The keyword arguments of a function, or of the constructor of a class, whose module cannot be imported here."""
    tree = ast.parse(file.read_text("utf-8"))
    (node,) = [entry for entry in tree.body if getattr(entry, "name", None) == name]
    if isinstance(node, ast.ClassDef):
        (node,) = [entry for entry in node.body if getattr(entry, "name", None) == "__init__"]
    assert isinstance(node, ast.FunctionDef)
    return {argument.arg for argument in node.args.kwonlyargs}


def test_programs_use_names_and_options_that_there_are() -> None:
    options = {
        "FirnPipelineOperator": list_options(CODE / "airflow" / "operators.py", "FirnPipelineOperator"),
        "FirnBackfillOperator": list_options(CODE / "airflow" / "operators.py", "FirnBackfillOperator"),
        "FirnTableSensor": list_options(CODE / "airflow" / "sensors.py", "FirnTableSensor"),
        "firn_assets": list_options(CODE / "dagster" / "assets.py", "firn_assets"),
    }
    of_all_tasks = {"task_id", "execution_timeout", "retries", "inlets"}
    names = {*firn.integrations.airflow.__all__, *firn.integrations.dagster.__all__}
    for block in blocks(PAGE):
        if block.language != "python":
            continue
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("firn.integrations"):
                assert {alias.name for alias in node.names} <= names
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in options:
                keywords = {keyword.arg for keyword in node.keywords}
                assert keywords <= options[node.func.id] | of_all_tasks


def test_the_table_has_the_options_of_the_operator() -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| .* \|$", PAGE, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    for name in ("FirnPipelineOperator", "FirnBackfillOperator"):
        assert list_options(CODE / "airflow" / "operators.py", name) - {"firn_conn_id"} <= listed
    assert f"| {PATIENCE_SECONDS:.0f} |" in PAGE


def test_the_facts_and_the_length_of_keys_are_those_of_the_code() -> None:
    text = re.sub(r"\s+", " ", PAGE)
    facts = re.search(r"has the facts of each run: ((?:`\w+`,? ?)+)", text)
    assert facts is not None
    assert set(re.findall(r"`(\w+)`", facts[1])) <= {*FACTS, *summarize_run(RunOut.read(a_run()))}
    longest = re.search(r"A key has up to (\d+) printable", text)
    assert longest is not None
    assert RunRequest(table="t", idempotency_key="k" * int(longest[1])).idempotency_key
