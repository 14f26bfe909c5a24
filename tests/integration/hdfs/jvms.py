"""Whether a process has started Java."""

from __future__ import annotations

from pathlib import Path


def has_jvm(pid: int) -> bool:
    """Whether the process or one below it runs Java."""
    below = [path.read_text(encoding="ascii").split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    children = [int(child) for ids in below for child in ids]
    return "libjvm" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8") or any(map(has_jvm, children))
