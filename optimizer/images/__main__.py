"""`python -m optimizer.images`: builds layers of images, checks keys and reads changes, until its input ends.

One task runs at a time. Each line of the input is a task, or the answer to a question; each line of the output is a
BuilderMessage. The server starts the process when it needs an image first, and keeps it: importing PyArrow takes longer
than most builds.
"""

from __future__ import annotations

from firn import garbage_collection  # first: it makes the other imports faster

# isort: split
import sys
from collections.abc import Sequence
from typing import TextIO

from firn.errors import FirnError
from firn.protocol.tasks.feed import Refusal
from firn.protocol.tasks.image import BuilderMessage, BuilderTask
from optimizer.images.deletes import write_deletes
from optimizer.images.feed import read_changed_rows
from optimizer.images.keys import check_keys
from optimizer.images.pair import Check, TooLarge, build_from_task
from optimizer.images.quarantine import read_quarantine
from optimizer.images.upserts import read_upserts

garbage_collection.resume()


class Refused(Exception):
    """The server does not let the builder open a file; it knows which and why."""


def serve(lines: TextIO, out: TextIO) -> None:
    """Answer tasks until the input ends. A failed build ends with a message, and the next task is taken."""

    def say(message: BuilderMessage) -> None:
        out.write(message.model_dump_json(exclude_unset=True) + "\n")
        out.flush()

    def check(files: Sequence[str]) -> None:
        if files:
            say(BuilderMessage(open=list(files)))
            if lines.readline().strip() != "true":
                raise Refused

    for line in lines:
        say(_answer(line, check))


def _answer(line: str, check: Check) -> BuilderMessage:
    try:
        return _run(BuilderTask.model_validate_json(line), check)
    except FileNotFoundError as error:
        return BuilderMessage(error=str(error), gone=str(error.filename or error))
    except TooLarge as error:
        return BuilderMessage(too_large=str(error))
    except Refused:
        return BuilderMessage(error="refused")
    except FirnError as error:
        return BuilderMessage(error=error.message, refused=Refusal(message=error.message, hint=error.hint))
    except Exception as error:  # noqa: BLE001 -- whatever a file holds, the next task is another's
        return BuilderMessage(error=f"{type(error).__name__}: {error}")


def _run(task: BuilderTask, check: Check) -> BuilderMessage:
    if task.layer is not None:
        return BuilderMessage(layer=build_from_task(task.layer, check))
    if task.keys is not None:
        return BuilderMessage(keys=check_keys(task.keys, check))
    if task.deletes is not None:
        return BuilderMessage(deletes=write_deletes(task.deletes, check))
    if task.upserts is not None:
        return BuilderMessage(upserts=read_upserts(task.upserts, check))
    if task.feed is not None:
        return BuilderMessage(feed=read_changed_rows(task.feed, check))
    if task.quarantine is not None:
        return BuilderMessage(quarantine=read_quarantine(task.quarantine, check))
    raise ValueError("the task says nothing")


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
