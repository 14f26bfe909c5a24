"""`firn group …`"""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import moment
from firn.transport import Json

app = typer.Typer(help="Manage groups of optimizers.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the group.")]
Description = Annotated[str | None, typer.Option(help="Description, which users see.")]
Reserved = Annotated[int | None, typer.Option(min=0, help="Number of slots that only short jobs may use.")]
Quota = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, help="Share of an hour's work after which a catalog's jobs wait for others; 1 sets no limit."
    ),
]

_LISTS = ("py_files", "jars", "file_systems")
_NUMBERS = ("slots", "streams", "sql", "memory_limit")
_OPTIONAL = (
    *("memory_limit", "application", "archive", "queue", "principal", "keytab", "proxy_user"),
    *("image", "namespace", "service_account"),
)


@command(app, "list")
def list_groups(ctx: CliContext) -> None:
    """List groups."""
    show, groups = ctx.show, ctx.client.groups.list()
    rows = [
        (
            group["name"],
            _describe_optimizers(group),
            str(group["reserved_slots"]),
            f"{group['catalog_quota']:.0%}",
            group["description"],
        )
        for group in groups
    ]
    titles = ("group", "optimizers", "reserved slots", "catalog quota", "description")
    show.emit(groups, lambda: show.table(titles, rows, none="no groups"))


@command(app, "show")
def show_group(ctx: CliContext, name: Name) -> None:
    """Show a group."""
    _show_group(ctx, ctx.client.groups.get(name))


@command(app, "create")
def create_group(
    ctx: CliContext,
    name: Name,
    description: Description = None,
    reserved_slots: Reserved = None,
    catalog_quota: Quota = None,
) -> None:
    """Create a group. The policy firn.optimize.group assigns tables to it."""
    _show_group(ctx, ctx.client.groups.create(name, **_settings(description, reserved_slots, catalog_quota)))


@command(app, "set")
def set_group(
    ctx: CliContext,
    name: Name,
    description: Description = None,
    reserved_slots: Reserved = None,
    catalog_quota: Quota = None,
) -> None:
    """Change settings of a group. Options that are not given stay as they are."""
    _show_group(ctx, ctx.client.groups.set(name, **_settings(description, reserved_slots, catalog_quota)))


@command(app, "launch")
def launch(
    ctx: CliContext,
    name: Name,
    kind: Annotated[str | None, typer.Option(help="How the server starts them: none, local or spark-submit.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="KEY=VALUE, such as memory=4g, master=yarn or idle_seconds=60; may be repeated. "
            "KEY= without a value removes a setting.",
        ),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE of Spark; may be repeated. Replaces all earlier ones.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(help="Environment variable NAME=VALUE; may be repeated. Replaces all earlier ones."),
    ] = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command of the next launch, without secrets. Changes nothing.")
    ] = False,
) -> None:
    """Show or change how the server starts the optimizers of a group."""
    changes = _launch_changes(_pairs(settings or [])) | ({} if kind is None else {"kind": kind})
    if conf is not None:
        changes["conf"] = _pairs(conf)
    if env is not None:
        changes["environment"] = _pairs(env)
    groups = ctx.client.groups
    if dry_run:
        _show_launch_command(ctx, groups.preview_launch(name, **changes))
        return
    _show_launch(ctx, name, groups.set_launch(name, **changes) if changes else groups.launch(name))


@command(app, "scale")
def scale(
    ctx: CliContext,
    name: Name,
    minimum: Annotated[int, typer.Option("--min", min=0, help="The smallest number of optimizers.")],
    maximum: Annotated[int, typer.Option("--max", min=0, help="The largest number of optimizers.")],
) -> None:
    """Set the smallest and largest number of optimizers that the server keeps in a group."""
    _show_launch(ctx, name, ctx.client.groups.scale(name, minimum=minimum, maximum=maximum))


@command(app, "drop")
def drop_group(ctx: CliContext, name: Name) -> None:
    """Drop a group without optimizers and without waiting jobs."""
    show = ctx.show
    ctx.client.groups.drop(name)
    show.emit({"dropped": name}, lambda: show.line(f"dropped group {name}"))


def _describe_optimizers(group: Json) -> str:
    return "started by users" if group["wanted"] is None else f"{group['working']} of {group['wanted']} wanted"


def _settings(description: str | None, reserved_slots: int | None, catalog_quota: float | None) -> dict[str, Json]:
    settings = {"description": description, "reserved_slots": reserved_slots, "catalog_quota": catalog_quota}
    return {key: value for key, value in settings.items() if value is not None}


def _show_group(ctx: CliContext, group: Json) -> None:
    facts = {
        "group": group["name"],
        "description": group["description"] or None,
        "reserved slots": str(group["reserved_slots"]),
        "catalog quota": f"{group['catalog_quota']:.0%}",
        "created": group["created_at"] and moment(group["created_at"]),
    }
    ctx.show.emit(group, lambda: ctx.show.facts(facts))


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise typer.BadParameter(f"{text!r} is not of the form NAME=VALUE")
        pairs[key] = value
    return pairs


def _launch_changes(settings: dict[str, str]) -> dict[str, Json]:
    """The body of a request; lists are written with commas, and an empty value removes a setting."""
    changes: dict[str, Json] = {}
    for key, text in settings.items():
        value: Json = int(text) if key in _NUMBERS and text.isdecimal() else text
        if key in _LISTS:
            value = [part for part in text.split(",") if part]
        elif not text and key in _OPTIONAL:
            value = None
        if key.endswith(("_seconds", "_attempts")):
            changes.setdefault("scaling", {})[key] = int(text) if text.isdecimal() else text
        else:
            changes[key] = value
    return changes


def _show_launch_command(ctx: CliContext, launch: Json) -> None:
    def people() -> None:
        for key, value in launch["environment"].items():
            ctx.show.line(f"{key}={shlex.quote(value)} \\")
        ctx.show.line(shlex.join(launch["arguments"]))
        for name, text in launch["files"].items():
            ctx.show.line(f"\n{name}:\n{text.rstrip()}")

    ctx.show.emit(launch, people)


def _show_launch(ctx: CliContext, name: str, launch: Json) -> None:
    scaling = launch["scaling"]
    facts = {
        "group": name,
        "started": "by users" if launch["kind"] == "none" else launch["kind"],
        "optimizers": f"{scaling['minimum']} to {scaling['maximum']}",
        "wanted": str(launch["wanted"]),
        "now": f"{launch['working']} working, {launch['starting']} starting, {launch['draining']} draining",
        "held back": launch["held_back"],
        "last error": launch["last_error"],
        "master": f"{launch['master']}, deploy mode {launch['deploy_mode']}",
        **{name: launch[name] for name in _OPTIONAL[1:]},
        **{name: ", ".join(launch[name]) or None for name in _LISTS},
        "slots": str(launch["slots"]),
        "streams": str(launch["streams"]) if launch["streams"] else None,
        "queries (sql)": str(launch["sql"]) if launch["sql"] else None,
        "memory": launch["memory"],
    }
    ctx.show.emit(launch, lambda: ctx.show.facts(facts))
