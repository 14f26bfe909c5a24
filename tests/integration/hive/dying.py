"""`python -m tests.integration.hive.dying server ARGUMENTS…`: the real server, which dies at a step of what it does
for Hive tables: an upgrade, a sync, a publish."""

from __future__ import annotations

from tests.integration.keyed import dying

STEPS = (
    "server.service.hive.attempt:Attempt.begin",
    "server.service.hive.attempt:Attempt.step",
    "server.files.table_files:TableFiles.write_snapshot",
    "server.service.metadata:MetadataFiles.write",
    "server.service.namespaces:Namespaces.ensure",
    "server.service.tables:Tables.add",
    "server.service.jobs:Jobs.take",
    "server.service.jobs:Jobs.committing",
    "server.service.jobs:Jobs.report",
    "server.service.commit:Committer._move",
    "server.service.hive.sync:Syncs._plan",
    "server.service.hive.published:PublishedFiles.accept",
    "server.service.hive.switch:Switches.finish",
    "server.service.hive.switch:Switches._moved",
    "server.service.hive.switch:Switches._note",
)

if __name__ == "__main__":
    dying.POINTS["server"] = STEPS
    dying.main()
