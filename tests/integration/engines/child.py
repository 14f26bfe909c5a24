"""A Spark session that answers on its standard input and output, for a PySpark other than the one of this environment.

Started as a program with the session's settings as JSON in its first argument. Takes a JSON document a line,
`{"sql": …}` or `{"python": …}`, and answers `{"rows": …}`, `{"answer": …}` or `{"error": …}`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answer(session: SparkSession, request: Mapping[str, str]) -> dict[str, Any]:
    """Run a statement and give its rows, or run Python and give the value of its variable `answer`.

    What JSON has no value for comes as text, so that two processes can be compared.
    """
    if "sql" in request:
        answer: dict[str, Any] = {"rows": session.sql(request["sql"]).collect()}
    else:
        names: dict[str, Any] = {"spark": session}
        exec(request["python"], names)
        answer = {"answer": names.get("answer")}
    plain: dict[str, Any] = json.loads(json.dumps(answer, default=str))
    return plain


def main() -> None:
    """Answer until standard input ends."""
    # The JVM inherits standard output and may write to it: the answers go where it does not.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- not before the JVM's output is out of the way

    session = SparkSession.builder.config(map=json.loads(sys.argv[1])).getOrCreate()
    for line in sys.stdin:
        try:
            reply = answer(session, json.loads(line))
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is the other process's business
            reply = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()
    session.stop()


if __name__ == "__main__":
    main()
