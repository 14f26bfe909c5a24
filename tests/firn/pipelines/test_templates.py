"""Jinja in SQL files: what it may do, that places stay those of the file, and that nothing leads out of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from firn.pipelines import explain_table, plan_pipeline, read_folder
from firn.pipelines.definition import Pipeline
from firn.pipelines.errors import InvalidDefinition, Place
from firn.pipelines.template_values import Value
from firn.pipelines.templates import render

COLUMNS = {"raw.trip": {"driver": "bigint", "day": "date", "fare": "decimal(10,2)", "tip": "decimal(10,2)"}}
VARIABLES: dict[str, Value] = {"first": "2026-01-01", "n": 3, "is_small": True, "columns": ["fare", "tip"]}
VIEW = "create materialized view t as "


def read(folder: Path, *texts: str, settings: str = "version: 1") -> Pipeline:
    (folder / "transformations").mkdir()
    (folder / "spark-pipeline.yml").write_text("name: p\ncatalog: lake\ndatabase: mart\n")
    (folder / "firn-pipeline.yml").write_text(settings)
    for number, text in enumerate(texts):
        (folder / "transformations" / f"f{number}.sql").write_text(text)
    return read_folder(folder)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("from {{ ref('fares') }}", "from `fares`"),
        ("from {{ ref('other.fares') }} join {{ source('raw', 'trip') }}", "from `other`.`fares` join `raw`.`trip`"),
        ("day >= '{{ var('first') }}'", "day >= '2026-01-01'"),
        ("{{ var('missing', 7) + 1 }}", "8"),
        ("{% if var('is_small') and var('n') > 2 %}a{% elif true %}b{% else %}c{% endif %}", "a"),
        ("{% if var('n') == 4 %}a{% elif not var('is_small') %}b{% else %}c{% endif %}", "c"),
        ("{% for c in var('columns') %}sum({{ c }}){{ ', ' if not loop.last }}{% endfor %}", "sum(fare), sum(tip)"),
        ("{% for i in range(3) %}{{ loop.index }}{{ i }}{% endfor %}", "102132"),
        ("{% for a, b in [('x', 1), ('y', 2)] %}{{ a ~ b }}{% endfor %}", "x1y2"),
        ("{% for x in [] %}a{% else %}none{% endfor %}", "none"),
        ("{% set x = 'a' %}{% for i in [1] %}{% set x = 'b' %}{{ x }}{% endfor %}{{ x }}", "ba"),
        ("{{ var('columns') | join(', ') | upper }} {{ ' x ' | trim }} {{ 'abc' | length }}", "FARE, TIP x 3"),
        ("a {%- if true -%}  b  {%- endif %} c{# a comment #}", "ab c"),
        ("{% raw %}{{ as it is }}{% endraw %}", "{{ as it is }}"),
        ("{{ 'x' in ['x'] }} {{ 7 % 4 * 2 - 1 }} {{ -1 }} {{ var('columns')[0] }}", "True 5 -1 fare"),
    ],
)
def test_templates_are_rendered(template: str, text: str) -> None:
    assert render(template, VARIABLES).text == text


ATTACKS = {
    "attribute": "{{ ''.__class__.__mro__ }}",
    "item": "{{ ''['__class__'] }}",
    "filter attr": "{{ '' | attr('__class__') }}",
    "globals of a function": "{{ ref.__globals__ }}",
    "method": "{{ 'x'.format(1) }}",
    "format": "{{ '{0.__class__}' | format(1) }}",
    "namespace": "{{ namespace(x=1) }}",
    "cycler": "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "self": "{{ self._TemplateReference__context }}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}",
    "from import": "{% from 'os' import path %}",
    "extends": "{% extends '/etc/passwd' %}",
    "macro": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "block": "{% block x %}{% endblock %}",
    "call": "{% call ref('x') %}{% endcall %}",
    "block set": "{% set x %}a{% endset %}",
    "recursive loop": "{% for x in [[1]] recursive %}{{ loop(x) }}{% endfor %}",
    "environment": "{{ env_var('HOME') }}",
    "keyword": "{{ ref(name='x') }}",
    "stars": "{{ ref(*['x']) }}",
    "a list as text": "{{ [1, 2] }}",
    "power": "{{ 10 ** 100000000 }}",
    "repeated text": "{{ 'a' * 1000000000 }}",
    "repeated list": "{{ [1] * 1000000000 }}",
    "large number": "{{ 999999999 * 999999999 * 999999999 }}",
    "nested loops": "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    "large range": "{% for a in range(1000000000) %}{% endfor %}",
    "range of no steps": "{% for a in range(0, 9, 0) %}{% endfor %}",
    "doubled text": "{% set x = 'abcdefgh' %}" + "{% set x = x ~ x %}" * 60,
    "doubled list": "{% set x = [1] %}" + "{% set x = x + x %}" * 60,
    "nested list": "{% set x = [1] %}" + "{% set x = [x, x] %}" * 60 + "{{ x == x }}",
    "long output": "{% for a in range(9999) %}" + "x" * 1000 + "{% endfor %}",
    "many copies": "{% set x = '" + "a" * 150_000 + "' %}{% for a in range(9999) %}{% set y = x | upper %}{% endfor %}",
    "joined copies": "{{ (['" + "a" * 20_000 + "'] + var('columns')) | join('" + "b" * 150_000 + "') }}",
    "deep": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "deep tree": "{{ " + "not " * 50_000 + "1 }}",
    "long sum": "{{ 1" + " + 1" * 60_000 + " }}",
    "not closed": "{{ x",
    "unknown tag": "{% wibble %}",
    "giant": "{{ 1 }}" + "x" * 300_000,
    "name that is none": "{{ ref('a b; drop table `x`') }}{{ ref('') }}",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_template_cannot_leave_its_bounds(name: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidDefinition):
        render(ATTACKS[name], VARIABLES)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("template", "words", "hint"),
    [
        ("{% if is_incremental() %}x{% endif %}", "no is_incremental()", "Firn's planner finds what to read"),
        ("select max(day) from {{ this }}", "does not read its own table", "Firn's planner"),
        ("{{ run_time }}", "has another value in each run", "from a column of an input"),
        ("{{ config(materialized='table') }}", "there is no config()", "firn-pipeline.yml"),
        ("{{ ref('package', 'x') }}", "the name of one table", "packages"),
        ("{{ var('nothing') }}", "there is no variable nothing", "below `vars`"),
        ("{{ dbt_utils.star('x') }}", "cannot be called", "ref, source, var"),
        ("{{ colums }}", "the template has no colums", "var('name')"),
    ],
)
def test_what_dbt_has_and_firn_does_not_is_explained(template: str, words: str, hint: str) -> None:
    with pytest.raises(InvalidDefinition, match="line 2") as refusal:
        render(f"\n{template}", VARIABLES)
    assert words in refusal.value.message
    assert hint in (refusal.value.hint or "")


def test_each_place_of_the_text_is_found_in_the_file() -> None:
    template = (
        "a\n{% if true %}\nbc {{ var('first') }} d{% for i in range(2) %}\nx{{ i }}{% endfor %}\n\nend{% endif %}"
    )
    rendered = render(template, VARIABLES)
    lines = rendered.text.split("\n")
    places = {}
    for word in ("a", "bc", "2026", "d", "x0", "x1", "end"):
        line = next(number for number, text in enumerate(lines, 1) if word in text)
        place = rendered.find_source(Place(line, lines[line - 1].index(word) + 1))
        places[word] = (place.line, place.column)
    assert places == {
        "a": (1, 1),
        "bc": (3, 1),
        "2026": (3, 4),
        "d": (3, 23),
        "x0": (4, 1),
        "x1": (4, 1),
        "end": (6, 1),
    }


def test_reasons_and_errors_name_the_line_of_the_file(tmp_path: Path) -> None:
    start = "{% set c = ['driver',\n\n 'day'] %}\n"
    sql = f"{start}{VIEW}select {{{{ c | join(', ') }}}},\n rand() as r\nfrom {{{{ source('raw', 'trip') }}}}"
    (planned,) = plan_pipeline(read(tmp_path, sql), COLUMNS.get)
    assert "(transformations/f0.sql, line 5)" in explain_table(planned)[1]


def test_an_error_in_the_sql_names_the_line_of_the_file(tmp_path: Path) -> None:
    sql = f"{{% for i in range(3) %}}\n\n{{% endfor %}}{VIEW}select driver, fair\nfrom {{{{ source('raw', 'trip') }}}}"
    (planned,) = plan_pipeline(read(tmp_path, sql), COLUMNS.get)
    assert planned.problem is not None
    assert planned.problem.message.startswith("transformations/f0.sql, line 3, column 58: no input has the column")


def test_an_error_of_parsing_names_the_line_of_the_file(tmp_path: Path) -> None:
    (problem,) = read(tmp_path, "{% for i in range(3) %}\n\n{% endfor %}\ndrop table x").problems
    assert (
        problem.message
        == "transformations/f0.sql, line 4, column 1: DROP stands where CREATE MATERIALIZED VIEW belongs"
    )


def test_a_reference_names_a_table_or_a_view_of_the_pipeline(tmp_path: Path) -> None:
    pipeline = read(
        tmp_path,
        "create materialized view c as select n from {{ ref('b') }} union all select n from {{ ref('mart.b') }}",
        "create materialized view b as select n from {{ ref('A') }} where n > {{ var('n') }}",
        "create temporary view a as select driver as n from {{ source('raw', 'trip') }}",
        settings="vars: {n: 3}",
    )
    assert pipeline.problems == ()
    assert list(pipeline.definitions) == ["mart.b", "mart.c"]
    assert "> 3" in pipeline.definitions["mart.b"].query.sql("spark")
    assert "{{ ref('b') }}" in pipeline.files["transformations/f0.sql"]


def test_a_reference_to_nothing_is_refused(tmp_path: Path) -> None:
    (problem,) = read(
        tmp_path,
        f"{VIEW}\nselect driver from {{{{ ref('trip_s') }}}}",
        "create materialized view trips as select driver from raw.trip",
    ).problems
    assert problem.message == "transformations/f0.sql, line 2: ref(): no file defines mart.trip_s"
    assert problem.hint == "did you mean mart.trips?"


def test_a_value_cannot_add_a_statement_that_is_not_read(tmp_path: Path) -> None:
    pipeline = read(
        tmp_path, f"{VIEW}select driver from {{{{ var('t') }}}}", settings="vars: {t: 'raw.trip; drop table x'}"
    )
    (problem,) = pipeline.problems
    assert "DROP stands where CREATE MATERIALIZED VIEW belongs" in problem.message


def test_braces_in_plain_sql_are_no_template(tmp_path: Path) -> None:
    pipeline = read(tmp_path, f"{VIEW}select driver, '{{' || '}}' || '{{#' as x from raw.trip")
    assert pipeline.problems == ()
