"""Checks of single values of launch settings. A value becomes one argument or one line of a file, never more."""

from __future__ import annotations

import re
from collections.abc import Mapping

from catalog.errors import Invalid

MAX_CHARACTERS = 2_000
"""The longest value of a setting, in characters."""
MAX_CONF_CHARACTERS = 20_000
"""The longest value for Spark or for the environment, which may hold many options."""
VARIABLES = ("group", "launch", "server", "slots")
"""The variables of values, written `{firn.group}`."""
_SHOWN_CHARACTERS = 80
_VARIABLE = re.compile(r"\{firn\.([^{}]*)\}")
# C0 and C1 controls, the separators that some readers take for line ends, and halves of surrogate pairs.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NOT_IN_LOCATION = re.compile(r"[\s\"'`\\]")


def require(holds: bool, message: str, *, hint: str | None = None) -> None:  # noqa: FBT001 -- an assertion with words
    """Raise Invalid with the message unless the condition holds."""
    if not holds:
        raise Invalid(message, hint=hint)


def quote(text: str) -> str:
    """The text for a message: in quotation marks, escaped and shortened."""
    return ascii(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}...")


def check_text(name: str, text: str, *, limit: int = MAX_CHARACTERS) -> None:
    """Require one line without control characters, within the limit, with known variables only."""
    require(len(text) <= limit, f"the value of {name} has {len(text):,} characters: at most {limit:,}")
    require("\n" not in text and "\r" not in text, f"the value of {name} has more than one line")
    control = _CONTROL.search(text)
    if control is not None:
        raise Invalid(f"the value of {name} has the control character U+{ord(control.group()):04X}")
    for variable in _VARIABLE.findall(text):
        variables = ", ".join(f"{{firn.{variable_name}}}" for variable_name in VARIABLES)
        require(variable in VARIABLES, f"{name} names {{firn.{variable}}}: there are {variables}")


def check_pattern(name: str, text: str | None, pattern: re.Pattern[str], meaning: str) -> None:
    """Require that a value matches the pattern after its variables are replaced; None passes."""
    if text is None:
        return
    require(text != "", f"{name} is empty")
    check_text(name, text)
    filled = _VARIABLE.sub("x", text)
    require(pattern.fullmatch(filled) is not None, f"{name} {quote(text)} is no {meaning}")


def check_location(name: str, text: str | None) -> None:
    """Require a path or URI that no program takes for an option, for two locations, or for words of a shell."""
    if text is None:
        return
    require(text != "", f"{name} is empty")
    require(not text.startswith("-"), f"{name} {quote(text)} would be taken for an option")
    check_text(name, text)
    odd = _NOT_IN_LOCATION.search(text)
    require(odd is None, f"{name} {quote(text)} has a space, a quotation mark or a backslash")


def fill_variables(text: str, variables: Mapping[str, str]) -> str:
    """The text with `{firn.group}` and the other variables replaced once."""
    return _VARIABLE.sub(lambda match: variables[match.group(1)], text)
