"""`firn table describe` and `columns`, and `describe` of namespaces and catalogs: comments, owners, labels, figures."""

from __future__ import annotations

from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.distributions import show_distribution
from firn.cli.show import Show, size
from firn.errors import Invalid
from firn.protocol.answers.columns import ColumnStatisticsOut
from firn.protocol.answers.tables import TableOut
from firn.protocol.descriptions import DescriptionOut

TableArg = Annotated[str, typer.Argument(metavar="TABLE", help="NAMESPACE.TABLE or CATALOG.NAMESPACE.TABLE")]
NamespaceArg = Annotated[str, typer.Argument(metavar="NAMESPACE", help="Name of the namespace, such as sales.eu.")]
CatalogArg = Annotated[str, typer.Argument(metavar="CATALOG", help="Name of the catalog.")]
Comment = Annotated[str | None, typer.Option(help="What it holds. An empty text removes the comment.")]
Owner = Annotated[str | None, typer.Option(help="Who answers for it. An empty text removes the owner.")]
Label = Annotated[list[str] | None, typer.Option(help="A label to add, such as pii; may be repeated.")]
RemoveLabel = Annotated[list[str] | None, typer.Option(help="A label to remove; may be repeated.")]

_NULLS = {"bound": "≤ ", "partial": "~"}
_RANGES = {"bound": ("≥ ", "≤ "), "partial": ("~", "~")}


def add_table_to(app: typer.Typer) -> None:
    """Add `firn table describe` and `firn table columns`."""
    command(app, "describe")(describe_table)
    command(app, "columns")(show_columns)


def add_namespace_to(app: typer.Typer) -> None:
    """Add `firn namespace describe`."""
    command(app, "describe")(describe_namespace)


def add_catalog_to(app: typer.Typer) -> None:
    """Add `firn catalog describe`."""
    command(app, "describe")(describe_catalog)


def describe_table(
    ctx: CliContext,
    table: TableArg,
    column: Annotated[
        str | None, typer.Option(help="Describe this column, or a nested field such as address.city.")
    ] = None,
    comment: Comment = None,
    owner: Owner = None,
    label: Label = None,
    remove_label: RemoveLabel = None,
) -> None:
    """Show or change the comment, the owner and the labels of a table, or those of one of its columns.

    Columns that others alter at the same time stay altered.
    """
    handle, added, removed = ctx.client.tables[table], label or [], remove_label or []
    if column is not None:
        if owner is not None:
            raise Invalid("a column has no owner", hint="leave --owner out, or leave --column out")
        described = handle.describe_column(column, comment=comment, add_labels=added, remove_labels=removed)
    elif _is_change(comment, owner, added, removed):
        described = handle.describe(comment=comment, owner=owner, add_labels=added, remove_labels=removed)
    else:
        described = handle.show()
    value = {
        "table": f"{described.catalog}.{described.full_name}",
        **described.description.model_dump(mode="json"),
        "columns": [
            {"name": column.name, "comment": column.comment, "labels": column.labels} for column in described.columns
        ],
    }
    ctx.show.emit(value, lambda: _show_table(ctx.show, described))


def show_columns(
    ctx: CliContext,
    table: TableArg,
    distribution: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Show how the values of this column are distributed. This reads its rows."),
    ] = None,
) -> None:
    """Show nulls, smallest and largest values, sizes and distinct values of the columns, without reading rows.

    ≤ marks a bound, and ~ a figure that does not include all rows. The notes below say why.
    """
    if distribution is not None:
        show_distribution(ctx, table, distribution)
        return
    show, statistics = ctx.show, ctx.client.tables[table].columns()
    rows = [
        (column.name, column.type, *_describe_figures(column), _describe_size(column), _describe_distinct(column))
        for column in statistics.columns
    ]
    heads = ("column", "type", "nulls", "smallest", "largest", "size", "distinct")
    show.emit(statistics.json_value(), lambda: show.table(heads, rows, none="no columns"))
    for note in statistics.notes:
        show.note(note)


def _describe_size(column: ColumnStatisticsOut) -> str:
    return "–" if column.bytes is None else size(column.bytes)


def _describe_figures(column: ColumnStatisticsOut) -> tuple[str, str, str]:
    nulls = "–" if column.nulls is None else f"{_NULLS.get(column.nulls_are, '')}{column.nulls:,}"
    low, high = _RANGES.get(column.range_is, ("", ""))
    lower = "–" if column.lower is None else low + column.lower
    upper = "–" if column.upper is None else high + column.upper
    return nulls, lower, upper


def _describe_distinct(column: ColumnStatisticsOut) -> str:
    if column.distinct is None:
        return "–"
    return f"~{column.distinct:,}" if column.distinct_is_current else f"~{column.distinct:,} (earlier)"


def describe_namespace(
    ctx: CliContext,
    namespace: NamespaceArg,
    comment: Comment = None,
    owner: Owner = None,
    label: Label = None,
    remove_label: RemoveLabel = None,
) -> None:
    """Show or change the comment, the owner and the labels of a namespace."""
    namespaces, added, removed = ctx.client.namespaces, label or [], remove_label or []
    if _is_change(comment, owner, added, removed):
        described = namespaces.describe(
            namespace, comment=comment, owner=owner, add_labels=added, remove_labels=removed
        )
    else:
        described = namespaces.get(namespace)
    _show(ctx.show, "namespace", described["name"], DescriptionOut.model_validate(described["description"]))


def describe_catalog(
    ctx: CliContext,
    name: CatalogArg,
    comment: Comment = None,
    owner: Owner = None,
    label: Label = None,
    remove_label: RemoveLabel = None,
) -> None:
    """Show or change the comment, the owner and the labels of a catalog."""
    catalogs, added, removed = ctx.client.catalogs, label or [], remove_label or []
    if _is_change(comment, owner, added, removed):
        described = catalogs.describe(name, comment=comment, owner=owner, add_labels=added, remove_labels=removed)
    else:
        described = catalogs.get(name)
    _show(ctx.show, "catalog", described.name, described.description)


def _is_change(comment: str | None, owner: str | None, added: list[str], removed: list[str]) -> bool:
    return comment is not None or owner is not None or bool(added or removed)


def _show(show: Show, kind: str, name: str, description: DescriptionOut) -> None:
    value = {kind: name, **description.model_dump(mode="json")}
    show.emit(value, lambda: show.facts({kind: name, **_facts(description)}))


def _show_table(show: Show, table: TableOut) -> None:
    show.facts({"table": f"{table.catalog}.{table.full_name}", **_facts(table.description)})
    columns = [(column.name, column.type, column.comment or "", ", ".join(column.labels)) for column in table.columns]
    show.table(("column", "type", "comment", "labels"), columns, none="no columns")


def _facts(description: DescriptionOut) -> dict[str, object]:
    return {
        "comment": description.comment or "–",
        "owner": description.owner or "–",
        "labels": ", ".join(description.labels) or "–",
    }
