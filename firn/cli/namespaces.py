"""`firn namespace …`"""

from __future__ import annotations

from typing import Annotated

import typer

from firn.cli.columns import parse_pairs
from firn.cli.context import CliContext, command
from firn.cli.describe import add_namespace_to
from firn.cli.dropped import DryRun, show_undropped
from firn.cli.show import moment
from firn.errors import Invalid, NotFound
from firn.protocol.answers.dropped import NamespaceDropOut

app = typer.Typer(help="Manage namespaces, which hold tables and other namespaces.", no_args_is_help=True)
add_namespace_to(app)

NamespaceArg = Annotated[
    str, typer.Argument(metavar="NAMESPACE", help="Name of the namespace, such as sales or sales.eu.")
]


@command(app, "list")
def list_namespaces(
    ctx: CliContext,
    parent: Annotated[str | None, typer.Argument(help="List only namespaces directly under this one.")] = None,
) -> None:
    """List namespaces."""
    show = ctx.show
    namespaces = list(ctx.client.namespaces.list(parent=parent))
    rows = [(namespace["name"], _is_protected(namespace["properties"])) for namespace in namespaces]
    show.emit(namespaces, lambda: show.table(("namespace", "protected"), rows, none="no namespaces"))


@command(app, "create")
def create_namespace(
    ctx: CliContext,
    namespace: NamespaceArg,
    property: Annotated[list[str] | None, typer.Option(help="KEY=VALUE; may be repeated.")] = None,
) -> None:
    """Create a namespace, with its parents."""
    show, created = ctx.show, ctx.client.namespaces.create(namespace, properties=parse_pairs(property))
    show.emit(created, lambda: show.line(f"created namespace {namespace}"))


@command(app, "drop")
def drop_namespace(
    ctx: CliContext,
    namespace: NamespaceArg,
    *,
    recursive: Annotated[
        bool,
        typer.Option("--recursive", help="Also drop everything in it; if one drop is refused, nothing is dropped."),
    ] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete the files of its tables when the retention of dropped tables ends.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Drop an empty namespace, or with --recursive a namespace with its content."""
    if purge and not recursive:
        raise Invalid("--purge needs --recursive, because an empty namespace has no tables", hint="add --recursive")
    show = ctx.show
    done = ctx.client.namespaces.drop(namespace, recursive=recursive, purge=purge, dry_run=dry_run)
    show.emit(done.json_value(), lambda: _show_dropped(ctx, namespace, done, dry_run=dry_run))


@command(app, "undrop")
def undrop_namespace(ctx: CliContext, namespace: NamespaceArg, *, dry_run: DryRun = False) -> None:
    """Restore a namespace that was dropped with its content."""
    catalog = ctx.client.catalog
    entries = (entry for entry in ctx.client.dropped.list(name=namespace) if entry.kind == "namespace")
    newest = next(entries, None)
    if newest is None:
        raise NotFound(
            f"the dropped namespace {namespace} is not in the list: it was empty, or its retention has ended",
            hint="`firn table list --dropped` shows what can be restored",
        )
    show_undropped(ctx, ctx.client.dropped.undrop(catalog, newest.id, dry_run=dry_run), dry_run=dry_run)


@command(app, "protect")
def protect_namespace(ctx: CliContext, namespace: NamespaceArg) -> None:
    """Protect a namespace against being dropped. Its tables have a protection of their own."""
    show, done = ctx.show, ctx.client.namespaces.protect(namespace)
    show.emit(done, lambda: show.line(f"{namespace} is protected against being dropped"))


@command(app, "unprotect")
def unprotect_namespace(ctx: CliContext, namespace: NamespaceArg) -> None:
    """Lift the protection of a namespace."""
    show, done = ctx.show, ctx.client.namespaces.protect(namespace, protected=False)
    show.emit(done, lambda: show.line(f"{namespace} can be dropped again"))


def _show_dropped(ctx: CliContext, namespace: str, done: NamespaceDropOut, *, dry_run: bool) -> None:
    verb = "would drop" if dry_run else "dropped"
    for entry in done.dropped:
        ctx.show.line(f"{verb} {entry.kind} {entry.name}")
    for name in done.namespaces:
        ctx.show.line(f"{verb} namespace {name}")
    if done.keep_until is not None and not dry_run:
        ctx.show.line(f"`firn namespace undrop {namespace}` restores all of it until {moment(done.keep_until)}")


def _is_protected(properties: dict[str, str]) -> bool:
    return properties.get("firn.protected", "false") not in {"false", ""}
