"""`python -m tests.integration.hive.dying server ARGUMENTS…`: the real server, which dies at a step of what it does
for Hive tables: an upgrade, a sync, a publish."""

from __future__ import annotations

from tests.integration.keyed import dying

STEPS = (
    "server.service.hive.upgrade_attempt:Attempt.begin",
    "server.service.hive.upgrade_attempt:Attempt.step",
    "server.files.table_files:TableFiles.write_snapshot",
    "server.service.tables.metadata_files:MetadataFiles.write",
    "server.service.tables.namespaces:Namespaces.ensure",
    "server.service.tables.tables:Tables.add",
    "server.service.jobs.leases:Jobs.take",
    "server.service.jobs.leases:Jobs.committing",
    "server.service.jobs.leases:Jobs.report",
    "server.service.commit.commit_path:Committer._move",
    "server.service.hive.sync:Syncs._plan",
    "server.service.hive.publish_commit:PublishedFiles.accept",
    "server.service.hive.repoint:Switches.finish",
    "server.service.hive.repoint:Switches._moved",
    "server.service.hive.repoint:Switches._note",
)

if __name__ == "__main__":
    dying.POINTS["server"] = STEPS
    dying.main()
