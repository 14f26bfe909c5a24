"""Rules, comparisons and messages, with the values that users, tables and engines may give."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from catalog.errors import Invalid
from catalog.notifications.message import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MOST_ATTEMPTS,
    Notification,
    NotificationId,
    build_message,
    encode_event,
    encode_slack,
    mail_subject,
    next_attempt,
    sign,
)
from catalog.notifications.problem import LONGEST_MESSAGE, LONGEST_TITLE, OpenProblem, Problem, compare_problems
from catalog.notifications.rule import (
    MOST_SILENCES,
    Rule,
    RuleId,
    Target,
    check_kinds,
    check_rule_name,
    check_target,
    decode_secret,
    describe_url,
    encode_secret,
)
from firn.protocol.notifications import Channel, ProblemKind
from tests.factories import LATER, NOW

SECRET = encode_secret(b"0" * 32)
KIND = ProblemKind.JOB_FAILED
HOSTILE = "a\r\nBcc: all@example.com\u202e\x00<!channel> & *b*"


def a_rule(**values: object) -> Rule:
    defaults = {"name": "r", "kinds": (KIND,), "channel": Channel.WEBHOOK, "created_at": NOW}
    return Rule(id=RuleId(UUID(int=1)), **{**defaults, **values})  # type: ignore[arg-type]


def a_problem(**values: object) -> Problem:
    defaults = {
        "kind": KIND,
        "key": "k",
        "catalog": "lake",
        "subject": "db.t",
        "title": "merge of db.t failed",
        "message": "no space left",
        "link": "/jobs/1",
        "since": LATER,
    }
    return Problem(**{**defaults, **values})  # type: ignore[arg-type]


def known(**values: object) -> OpenProblem:
    return OpenProblem(**{"number": 1, "kind": KIND, "key": "k", "since": NOW, **values})  # type: ignore[arg-type]


def test_a_problem_is_reported_once_and_ends_once() -> None:
    rule, problem = a_rule(), a_problem()
    first = compare_problems(rule, [problem], [], {KIND})
    assert (first.began, first.ended) == ([problem], [])
    again = compare_problems(rule, [replace(problem, since=LATER + timedelta(1))], [known()], {KIND})
    assert (again.began, again.ended) == ([], [])
    assert compare_problems(rule, [], [known()], {KIND}).ended == [known()]


def test_a_look_that_is_not_complete_ends_nothing() -> None:
    assert compare_problems(a_rule(), [], [known()], set()).ended == []


def test_a_kind_that_the_rule_no_longer_watches_for_ends() -> None:
    rule = a_rule(kinds=(ProblemKind.NOT_FRESH,))
    assert compare_problems(rule, [a_problem()], [known()], {KIND}).ended == [known()]


@pytest.mark.parametrize(
    "problem",
    [
        a_problem(kind=ProblemKind.NOT_FRESH),
        a_problem(catalog="other"),
        a_problem(catalog=None),
        a_problem(since=NOW - timedelta(seconds=1)),
    ],
)
def test_a_rule_reports_its_kinds_its_catalog_and_what_is_new(problem: Problem) -> None:
    assert compare_problems(a_rule(catalog="lake"), [problem], [], {KIND}).began == []


def test_silences_have_an_end_and_a_limit() -> None:
    rule = a_rule().silence(LATER, None, NOW)
    assert rule.is_silent("db.t", NOW)
    assert not rule.is_silent("db.t", LATER)
    assert not rule.silence(None, None, NOW).is_silent("db.t", NOW)
    silenced = a_rule().silence(LATER, "db.t", NOW)
    assert (silenced.is_silent("db.t", NOW), silenced.is_silent("db.u", NOW)) == (True, False)
    assert silenced.silence(None, "db.t", NOW).silences == {}
    assert silenced.silence(LATER + timedelta(1), "db.u", LATER).silences.keys() == {"db.u"}
    full = a_rule(silences={str(number): LATER for number in range(MOST_SILENCES)})
    with pytest.raises(Invalid, match="silences already"):
        full.silence(LATER, "one more", NOW)
    for subject in ("", "x" * 2_000):
        with pytest.raises(Invalid):
            a_rule().silence(LATER, subject, NOW)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "../x", "ä", "x" * 129, "-a", "a\n"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(Invalid, match="not a name for a rule"):
        check_rule_name(name)


def test_kinds_are_kept_once() -> None:
    assert check_kinds([ProblemKind.NOT_FRESH, KIND, KIND]) == (KIND, ProblemKind.NOT_FRESH)
    with pytest.raises(Invalid):
        check_kinds([])


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://example.com/x",
        "file:///etc/passwd",
        "https://",
        "https://user:pw@example.com/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:169.254.169.254]/",
        "http://0.0.0.0/",
        "https://example.com:99999/",
        "https://example.com/a b",
        "https://example.com/\r\nHost: x",
        "https://exämple.com/",
        "https://[::1",
        "https://example.com/" + "x" * 2_048,
    ],
)
def test_bad_addresses_are_refused(url: str) -> None:
    with pytest.raises(Invalid) as raised:
        check_target(Target(channel=Channel.WEBHOOK, url=url, secret=SECRET))
    assert "pw@" not in raised.value.message


@pytest.mark.parametrize(
    "recipient",
    ["", "a", "a@", "@b", "a@b\r\nBcc: c@d", "A <a@b>", "a@b, c@d", "a b@c", "a@-", "a@" + "b" * 300, "ä@b"],
)
def test_bad_recipients_are_refused(recipient: str) -> None:
    with pytest.raises(Invalid):
        check_target(Target(channel=Channel.MAIL, recipients=(recipient,)))


@pytest.mark.parametrize(
    "target",
    [
        Target(channel=Channel.MAIL),
        Target(channel=Channel.MAIL, url="https://example.com/", recipients=("a@b",)),
        Target(channel=Channel.MAIL, recipients=("a@b",), secret=SECRET),
        Target(channel=Channel.MAIL, recipients=("a@b",) * 51),
        Target(channel=Channel.SLACK, url="https://example.com/", secret=SECRET),
        Target(channel=Channel.SLACK),
        Target(channel=Channel.WEBHOOK, url="https://example.com/", recipients=("a@b",), secret=SECRET),
    ],
)
def test_values_that_do_not_go_together_are_refused(target: Target) -> None:
    with pytest.raises(Invalid):
        check_target(target)


@pytest.mark.parametrize(
    "secret", ["", "hunter2", "whsec_", "whsec_!!", encode_secret(b"x" * 23), "whsec_" + "A" * 200]
)
def test_bad_secrets_are_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(Invalid) as raised:
        decode_secret(secret)
    assert len(secret) < 7 or secret not in f"{raised.value.message} {raised.value.hint}"


def test_secret_parts_of_addresses_are_not_shown() -> None:
    assert describe_url(Channel.SLACK, "https://hooks.slack.com/services/T/B/s3cret") == "https://hooks.slack.com/…"
    assert describe_url(Channel.WEBHOOK, "https://example.com/hook?key=s3cret#x") == "https://example.com/hook"
    assert "s3cret" not in repr(Target(channel=Channel.SLACK, url="https://x/s3cret", secret="s3cret"))


def message_of(**values: object) -> Notification:
    problem = a_problem(**values).cleaned()
    return Notification(
        id=NotificationId(uuid4()),
        rule="r",
        kind=problem.kind,
        catalog=problem.catalog,
        subject=problem.subject,
        title=problem.title,
        message=problem.message,
        link=problem.link,
        since=problem.since,
        created_at=LATER,
    )


def test_a_webhook_is_a_cloud_event() -> None:
    notification = message_of()
    event = json.loads(encode_event(build_message(notification, "https://firn.example/"), "https://firn.example/"))
    assert (event["specversion"], event["type"], event["id"]) == (
        "1.0",
        "firn.notification.opened",
        str(notification.id),
    )
    assert event["data"]["link"] == "https://firn.example/jobs/1"
    resolved = build_message(replace(notification, is_resolution=True), None)
    assert (resolved.type, resolved.url) == ("firn.notification.resolved", "/jobs/1")


def test_the_signature_covers_id_time_and_body() -> None:
    key = decode_secret(SECRET)
    expected = base64.b64encode(hmac.new(key, b"id.5.{}", hashlib.sha256).digest()).decode()
    assert sign(key, "id", 5, b"{}") == f"v1,{expected}"
    assert len({sign(key, *parts) for parts in (("id", 5, b"{}"), ("i", 5, b"{}"), ("id", 6, b"{}"))}) == 3


def test_texts_of_tables_and_engines_cannot_do_anything() -> None:
    message = build_message(message_of(title=HOSTILE, message=HOSTILE, subject=HOSTILE), "https://firn.example")
    assert "\n" not in mail_subject(message)
    assert "\r" not in mail_subject(message)
    assert "\x00" not in message.text
    assert "\u202e" not in message.title
    text = json.loads(encode_slack(message))["text"]
    assert "<!channel>" not in text
    assert "&lt;!channel&gt; &amp;" in text
    json.loads(encode_event(message, "firn"))


def test_long_texts_are_cut() -> None:
    cleaned = a_problem(title="x" * 10_000, message="y" * 100_000, key="z" * 1_000).cleaned()
    assert (len(cleaned.title), len(cleaned.message), len(cleaned.key)) == (LONGEST_TITLE, LONGEST_MESSAGE, 255)
    assert len(encode_slack(build_message(message_of(message="<" * 100_000), None))) < 20_000


def test_attempts_have_growing_pauses_and_an_end() -> None:
    assert next_attempt(1, NOW) == NOW + FIRST_PAUSE
    assert next_attempt(2, NOW) == NOW + 2 * FIRST_PAUSE
    assert next_attempt(MOST_ATTEMPTS - 1, NOW) == NOW + LONGEST_PAUSE
    assert next_attempt(MOST_ATTEMPTS, NOW) is None
    assert next_attempt(MOST_ATTEMPTS + 1, NOW) is None
