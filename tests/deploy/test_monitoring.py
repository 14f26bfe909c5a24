"""Dashboard and alerts: every expression is PromQL, over metrics and labels that the server tells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
DASHBOARD = json.loads((DEPLOY / "grafana/firn.json").read_text("utf-8"))
RULES = yaml.safe_load((DEPLOY / "prometheus/firn.rules.yml").read_text("utf-8"))["groups"][0]["rules"]
METRIC = re.compile(r"\b(firn_[a-z_]+?)(?:_bucket)?\s*(?:\{([^}]*)\}|\b)")


def documented() -> dict[str, set[str]]:
    """The metrics of the operator's page, which a test of the server compares with what it tells, with their labels."""
    named = re.findall(r"`(firn_[a-z_]+)(?:\{([^}]*)\})?`", OPERATIONS.read_text("utf-8"))
    return {name: set(labels.split(",")) - {""} for name, labels in named}


def expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")
    for rule in RULES:
        yield rule["alert"], rule["expr"]


@pytest.mark.parametrize(("where", "expression"), [*expressions()], ids=lambda text: text[:40])
def test_every_expression_is_promql_over_documented_metrics(where: str, expression: str) -> None:
    promql_parser.parse(expression)
    known = documented()
    metrics = METRIC.findall(expression)
    assert metrics or expression.startswith("up"), where
    for metric, selected in metrics:
        assert metric in known, f"{where}: {metric} is not documented"
        labels = set(re.findall(r"(\w+)\s*(?:=~|!=|=)", selected))
        assert labels <= known[metric], f"{where}: {metric} has no label {labels - known[metric]}"


def test_panels_do_not_overlap_and_say_what_they_show() -> None:
    occupied: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & occupied, panel["title"]
        assert max(x for x, _ in cells) < 24
        assert panel["description"]
        occupied |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_waits_a_while_and_says_what_to_do(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"\d+[mh]", rule["for"])
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["action"].endswith((".", "`."))
