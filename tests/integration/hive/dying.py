"""`python -m tests.integration.hive.dying server ARGUMENTS…`: the real server, which dies at a step of an upgrade."""

from __future__ import annotations

from tests.integration.keyed import dying

STEPS = (
    "server.service.hive.attempt:Attempt.begin",
    "server.service.hive.attempt:Attempt.step",
    "server.files.table_files:TableFiles.write_snapshot",
    "server.service.metadata:MetadataFiles.write",
    "server.service.namespaces:Namespaces.ensure",
    "server.service.tables:Tables.add",
)

if __name__ == "__main__":
    dying.POINTS["server"] = STEPS
    dying.main()
