"""`python -m tests.integration.hive.dying server ARGUMENTS…`: the real server, which dies at a step of what it does
for Hive tables: an upgrade, a sync, a publish."""

from __future__ import annotations

from tests.integration.keyed import dying

STEPS = (
    "server.service.hive.upgrade_attempt:UpgradeAttempt.begin",
    "server.service.hive.upgrade_attempt:UpgradeAttempt.step",
    "server.files.table_files:TableFiles.write_snapshot",
    "server.service.tables.metadata_files:MetadataFiles.write",
    "server.service.tables.namespaces:Namespaces.ensure",
    "server.service.tables.tables:Tables.add",
    "server.service.jobs.leases:Jobs.take",
    "server.service.jobs.leases:Jobs.begin_commit",
    "server.service.jobs.leases:Jobs.report",
    "server.service.commit.commit_path:Committer._move",
    "server.service.hive.sync_planner:SyncPlanner._queue",
    "server.service.hive.publish_commit:PublishedFiles.accept",
    "server.service.hive.repoint:Repointer.finish",
    "server.service.hive.repoint:Repointer._moved",
    "server.service.hive.repoint:Repointer._note",
)

if __name__ == "__main__":
    dying.POINTS["server"] = STEPS
    dying.main()
