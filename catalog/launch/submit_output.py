"""The reason for the end of a process, from the end of its output.

spark-submit writes hundreds of lines: progress of YARN each second, stack traces, and last of all that it deletes its
directories. Few lines tell a person why it ended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

REASON_LINES = 5
REASON_CHARACTERS = 500
"""The longest line of a reason."""
_CONSIDERED_LINES = 40
"""Earlier errors may be those of a job that was repeated hours ago."""
_CONTROL = re.compile("\x1b\\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_FRAME = re.compile(
    r"\s*at [\w.$<>/]+\(.*\)\s*$|\s*\.\.\. \d+ more\s*$|\s+File \".*\", line \d+|Traceback \(most recent"
)
_ROUTINE = re.compile(
    r"\S+ \S+ (INFO|DEBUG|TRACE|WARN|WARNING)\b|(INFO|WARN|WARNING)\b|Picked up |:: |Using Spark's default log4j"
)
_REPORT = re.compile(r"\s*(client token|ApplicationMaster \w+|queue|start time|final status|tracking URL|user): ")
_DIAGNOSTICS = re.compile(r"\s*diagnostics: (?!N/A)\s*\S")
_ERROR = re.compile(
    r"Exception in thread |Caused by: |(\S+ \S+ )?(ERROR|FATAL)\b|Error: |[\w.$]*(Exception|Error): |firn: "
)

_POD_END = re.compile(r"exit code: (\d+)\s+termination reason: (\S+)")
_POD_NAME = re.compile(r"submission ID (\S+):(\S+) finished")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFailure:
    """The end of a driver's pod that spark-submit reports, although it ends with status 0."""

    exit_status: int
    reason: str


def find_pod_failure(output: str) -> PodFailure | None:
    """The failure of a driver on Kubernetes; None if spark-submit reports none."""
    _, final, statuses = output.rpartition("Container final statuses:")
    ended = _POD_END.search(statuses) if final else None
    if ended is None or ended.group(1) == "0":
        return None
    pod = _POD_NAME.search(statuses)
    log = "" if pod is None else f"; its log: kubectl logs -n {pod.group(1)} {pod.group(2)}"
    reason = f"the driver's pod ended with exit code {ended.group(1)} ({ended.group(2)}){log}"
    return PodFailure(exit_status=int(ended.group(1)), reason=reason)


def find_reason(output: str) -> str:
    """The lines of the output that name an error; without any, its last lines. Empty if there is no output."""
    lines = [_CONTROL.sub("", line).rstrip() for line in output.splitlines()]
    lines = [line for line in lines if line.strip()]
    spoken = [line for line in lines if not any(p.match(line) for p in (_FRAME, _ROUTINE, _REPORT))]
    spoken = spoken[-_CONSIDERED_LINES:]
    named = [line for line in spoken if _ERROR.match(line) or _DIAGNOSTICS.match(line)]
    chosen = list(dict.fromkeys(_shorten(line.strip()) for line in named or spoken or lines))
    return "\n".join(chosen[-REASON_LINES:])


def _shorten(line: str) -> str:
    return line if len(line) <= REASON_CHARACTERS else f"{line[:REASON_CHARACTERS]}…"
