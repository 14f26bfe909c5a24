"""`firn notification …`: rules that report problems, and the history of their messages."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import moment
from firn.protocol.answers.notifications import NotificationOut, RuleOut
from firn.protocol.notifications import Channel, NotificationState, ProblemKind

app = typer.Typer(help="Report problems by webhook, Slack or mail. They need an administrator.", no_args_is_help=True)
rules = typer.Typer(help="Manage rules: what they report, and where.", no_args_is_help=True)
app.add_typer(rules, name="rule")

_URL, _SECRET = "FIRN_WEBHOOK_URL", "FIRN_WEBHOOK_SECRET"
Name = Annotated[str, typer.Argument(help="Name of the rule.")]


@command(rules, "list")
def list_rules(ctx: CliContext) -> None:
    """List rules with their newest messages."""
    show, rules = ctx.show, ctx.client.notifications.rules()
    titles = ("rule", "reports", "channel", "to", "open", "last message", "state")
    rows = [_describe_rule(rule) for rule in rules]
    show.emit([rule.json_value() for rule in rules], lambda: show.table(titles, rows, none="no rules"))


@command(rules, "create")
def create_rule(  # noqa: PLR0913, PLR0917 -- its options are what people type
    ctx: CliContext,
    name: Name,
    on: Annotated[
        list[ProblemKind], typer.Option(help="Kind of problem, or of table event; repeat the option for several.")
    ],
    channel: Annotated[Channel, typer.Option(help="How the rule sends messages.")] = Channel.WEBHOOK,
    url: Annotated[
        str | None,
        typer.Option(help=f"Address of the webhook. The command takes it from ${_URL}, or asks: it may be a secret."),
    ] = None,
    to: Annotated[list[str] | None, typer.Option(help="Address that gets mails; repeat it for several.")] = None,
    only_catalog: Annotated[str | None, typer.Option(help="Report problems of this catalog alone.")] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(help="Report events of tables that match a pattern, such as 'shop.*'; repeat it for several."),
    ] = None,
    silent_ends: Annotated[  # noqa: FBT002 -- a flag of the command line
        bool, typer.Option("--silent-ends", help="Do not report that a problem has ended.")
    ] = False,
) -> None:
    """Create a rule. It reports problems that begin from now on, or sends table events as CloudEvents.

    The server creates the secret that signs webhooks, unless $FIRN_WEBHOOK_SECRET has one, and shows it once.
    """
    if channel is not Channel.MAIL and url is None:
        url = os.environ.get(_URL) or str(typer.prompt("Address of the webhook", hide_input=True))
    created = ctx.client.notifications.create_rule(
        name,
        on,
        channel=channel,
        url=url,
        secret=os.environ.get(_SECRET) if channel is Channel.WEBHOOK else None,
        recipients=to or [],
        catalog=only_catalog,
        resolved=not silent_ends,
        tables=table or [],
    )
    ctx.show.emit(created.json_value(), lambda: ctx.show.line(f"created rule {created.name}"))
    if created.secret is not None and not ctx.json:
        ctx.show.line(created.secret)
        ctx.show.warn("The secret above signs the webhooks. It is shown only now.")


@command(rules, "show")
def show_rule(ctx: CliContext, name: Name) -> None:
    """Show a rule, without its secret."""
    rule = ctx.client.notifications.rule(name)
    facts = {
        "rule": rule.name,
        "reports": ", ".join(rule.kinds),
        "catalog": rule.catalog or "all",
        "channel": rule.channel,
        "to": _describe_target(rule),
        "reports ends": "yes" if rule.resolved else "no",
        "tables": ", ".join(rule.tables) or None,
        "open problems": rule.open,
        "waiting": rule.waiting,
        "not sent": rule.failed,
        "silent until": moment(rule.silenced_until),
        "silences": ", ".join(f"{silence.subject} until {moment(silence.until)}" for silence in rule.silences) or None,
        "created": moment(rule.created_at),
        "by": rule.created_by,
        "last message": None if rule.last is None else f"{rule.last.title} ({rule.last.state})",
        "error": None if rule.last is None else rule.last.error,
    }
    ctx.show.emit(rule.json_value(), lambda: ctx.show.facts(facts))


@command(rules, "test")
def test_rule(ctx: CliContext, name: Name) -> None:
    """Have the server send a test message. The exit status is 1 if the receiver does not accept it."""
    result = ctx.client.notifications.test_rule(name)
    text = "the receiver has accepted the test message" if result.accepted else f"not accepted: {result.error}"
    ctx.show.emit(result.json_value(), lambda: ctx.show.line(text))
    if not result.accepted:
        raise typer.Exit(1)


@command(rules, "retry")
def retry_rule(ctx: CliContext, name: Name) -> None:
    """Send all messages of a rule again that could not be sent."""
    retried = ctx.client.notifications.retry_rule(name)
    text = f"the server sends {retried:,} message{'' if retried == 1 else 's'} again"
    ctx.show.emit({"retried": retried}, lambda: ctx.show.line(text))


@command(rules, "silence")
def silence_rule(
    ctx: CliContext,
    name: Name,
    minutes: Annotated[int, typer.Option(min=0, help="How long; 0 ends the silence.")],
    subject: Annotated[str | None, typer.Option(help="Only messages about this table, optimizer or wave.")] = None,
) -> None:
    """Keep the messages of a rule back for a while, or those about one subject."""
    rule = ctx.client.notifications.silence_rule(name, minutes, subject=subject)
    about = "" if subject is None else f" about {subject}"
    text = (
        f"rule {name} is silent{about} for {minutes} minutes" if minutes else f"rule {name} sends messages{about} again"
    )
    ctx.show.emit(rule.json_value(), lambda: ctx.show.line(text))


@command(rules, "drop")
def drop_rule(ctx: CliContext, name: Name) -> None:
    """Drop a rule. Its waiting messages are given up."""
    ctx.client.notifications.drop_rule(name)
    ctx.show.emit({"dropped": name}, lambda: ctx.show.line(f"dropped rule {name}"))


@command(app, "list")
def list_notifications(
    ctx: CliContext,
    rule: Annotated[str | None, typer.Option(help="Only messages of this rule.")] = None,
    state: Annotated[list[NotificationState] | None, typer.Option(help="Only messages in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most messages to list.")] = 50,
) -> None:
    """List messages, newest first."""
    show = ctx.show
    messages = show.first(ctx.client.notifications.list(rule=rule, states=state or []), limit)
    titles = ("notification", "at", "rule", "message", "state", "error")
    rows = [_describe(message) for message in messages]
    show.emit([message.json_value() for message in messages], lambda: show.table(titles, rows, none="no notifications"))


@command(app, "retry")
def retry_notification(
    ctx: CliContext, notification: Annotated[str, typer.Argument(help="Id of a failed message.")]
) -> None:
    """Send a failed message again."""
    message = ctx.client.notifications.retry(notification)
    ctx.show.emit(message.json_value(), lambda: ctx.show.line("the server sends it again within seconds"))


def _describe(message: NotificationOut) -> tuple[str | None, ...]:
    return message.id, moment(message.created_at), message.rule, message.title, str(message.state), message.error


def _describe_rule(rule: RuleOut) -> tuple[str | int | None, ...]:
    last = rule.last
    named = rule.name, ", ".join(rule.kinds), str(rule.channel), _describe_target(rule), rule.open
    return *named, None if last is None else last.title, None if last is None else str(last.state)


def _describe_target(rule: RuleOut) -> str:
    return rule.address or ", ".join(rule.recipients)
