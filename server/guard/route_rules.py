"""The requirements of every route of both APIs. A test compares them with the routes, so no route can be missing."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.access.privileges import Privilege
from server.api.principals import ServiceIn, UserIn
from server.guard import audit_target, body_targets
from server.guard import requirements as on
from server.guard.requirements import PUBLIC, Rule, anyone, changes, commits, reads, routine

LIST, READ, WRITE, CREATE = Privilege.LIST, Privilege.READ, Privilege.WRITE, Privilege.CREATE
DROP, MAINTAIN, GRANT = Privilege.DROP, Privilege.MAINTAIN, Privilege.GRANT

Rules = Mapping[tuple[str, str], Rule]

SERVER: Rules = {
    ("GET", "/healthz"): PUBLIC,
    ("GET", "/readyz"): PUBLIC,
    ("GET", "/metrics"): routine(on.server(LIST)),
    ("GET", "/docs"): PUBLIC,
    ("GET", "/{path:path}"): PUBLIC,  # the console's files
}

_NAMESPACE = "/{catalog}/namespaces/{namespace}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
_VIEW = f"{_NAMESPACE}/views/{{view}}"

ICEBERG: Rules = {
    ("GET", "/config"): reads(on.warehouse),
    ("POST", "/oauth/tokens"): PUBLIC,
    ("GET", "/{catalog}/namespaces"): reads(on.parent_namespace),
    ("POST", "/{catalog}/namespaces"): changes(body_targets.new_namespace),
    ("GET", _NAMESPACE): reads(on.namespace()),
    ("HEAD", _NAMESPACE): reads(on.namespace()),
    ("DELETE", _NAMESPACE): changes(on.namespace(DROP)),
    ("POST", f"{_NAMESPACE}/properties"): changes(on.namespace(WRITE)),
    ("GET", f"{_NAMESPACE}/tables"): reads(on.namespace()),
    ("POST", f"{_NAMESPACE}/tables"): changes(body_targets.new_table),
    ("POST", f"{_NAMESPACE}/register"): changes(body_targets.registered),
    ("GET", _TABLE): reads(on.table(READ)),
    ("HEAD", _TABLE): reads(on.table()),
    ("POST", _TABLE): commits(body_targets.committed),
    ("DELETE", _TABLE): changes(on.table(DROP)),
    ("POST", f"{_TABLE}/plan"): reads(on.table(READ)),
    ("GET", f"{_TABLE}/plan/{{plan_id}}"): reads(on.table(READ)),
    ("DELETE", f"{_TABLE}/plan/{{plan_id}}"): reads(on.table(READ)),
    ("POST", f"{_TABLE}/tasks"): reads(on.table(READ)),
    ("GET", f"{_TABLE}/credentials"): reads(on.table(READ)),
    ("POST", f"{_TABLE}/sign"): routine(on.table(READ)),
    ("POST", f"{_TABLE}/unregister"): changes(body_targets.unregistered),
    ("POST", f"{_TABLE}/metrics"): routine(on.table(READ)),
    ("POST", "/{catalog}/tables/rename"): changes(body_targets.renamed),
    ("POST", "/{catalog}/transactions/commit"): commits(body_targets.committed_together),
    ("POST", f"{_NAMESPACE}/register-view"): changes(body_targets.registered),
    ("GET", f"{_NAMESPACE}/views"): reads(on.namespace()),
    ("POST", f"{_NAMESPACE}/views"): changes(on.namespace(CREATE)),
    ("GET", _VIEW): reads(on.view(READ)),
    ("HEAD", _VIEW): reads(on.view()),
    ("POST", _VIEW): changes(on.view(WRITE)),
    ("DELETE", _VIEW): changes(on.view(DROP)),
    ("POST", "/{catalog}/views/rename"): changes(body_targets.renamed_view),
}

_CATALOG = "/catalogs/{catalog}"
_ITEM = f"{_CATALOG}/tables/{{table}}"
_HIVE = f"{_CATALOG}/hive/{{full_name}}"
_SAVED = f"{_CATALOG}/views/{{view}}"
_TURNS = ("pause", "resume", "cancel")
_STREAM_TURNS = ("pause", "resume", "restart")
_PAST = ("/history", "/compare", "/refs", "/metrics")
_BAD_RECORDS = ("/log/quarantine", "/log/quarantine/records", "/log/quarantine/records/{partition}/{offset}")
_LOGS = ("/log", "/log/check", "/log/pin", "/log/suspected-changelogs", "/log/schemas/{number}", *_BAD_RECORDS)
_STREAMS = ("/writers", "/writers/{writer}", *_LOGS)
_CHANGES = ("/changes", "/changes/plan", "/changes/files", "/consumers", "/consumers/{consumer}")
_UPKEEP = ("/explain", "/health", "/trends", "/lineage", "/blockers", "/jobs", "/policy")

_CATALOGS: Rules = {
    ("GET", "/catalogs"): reads(anyone),
    ("POST", "/catalogs"): changes(on.server(CREATE)),
    ("GET", _CATALOG): reads(on.catalog()),
    ("DELETE", _CATALOG): changes(on.catalog(DROP)),
    ("PATCH", f"{_CATALOG}/properties"): changes(body_targets.catalog_settings),
    ("PATCH", f"{_CATALOG}/description"): changes(on.catalog(MAINTAIN)),
    ("GET", f"{_CATALOG}/misplaced"): reads(on.server(GRANT)),
    ("GET", f"{_CATALOG}/positions"): reads(on.server(GRANT)),
    ("GET", f"{_CATALOG}/namespaces"): reads(on.queried_namespace("parent")),
    ("POST", f"{_CATALOG}/namespaces"): changes(body_targets.new_dotted_namespace),
    ("GET", f"{_CATALOG}/namespaces/{{namespace}}"): reads(on.dotted_namespace()),
    ("PATCH", f"{_CATALOG}/namespaces/{{namespace}}/description"): changes(on.dotted_namespace(WRITE)),
    ("DELETE", f"{_CATALOG}/namespaces/{{namespace}}"): changes(on.dotted_namespace(DROP)),
    ("POST", f"{_CATALOG}/namespaces/{{namespace}}/protect"): changes(on.dotted_namespace(MAINTAIN)),
    ("POST", f"{_CATALOG}/namespaces/{{namespace}}/unprotect"): changes(on.dotted_namespace(MAINTAIN)),
    ("GET", f"{_CATALOG}/policy"): reads(on.queried_namespace("namespace")),
    # The service adds up only the tables that the caller may read. The console asks for it with every page.
    ("GET", f"{_CATALOG}/trends"): routine(on.queried_namespace("namespace")),
    ("GET", f"{_CATALOG}/summary"): routine(on.catalog()),
    ("PUT", f"{_CATALOG}/policy"): changes(body_targets.whole_policy),
    ("PATCH", f"{_CATALOG}/policy"): changes(body_targets.policy),
}

_TABLES: Rules = {
    ("GET", f"{_CATALOG}/tables"): reads(on.catalog()),
    ("POST", f"{_CATALOG}/tables"): changes(body_targets.new_dotted_table),
    ("DELETE", _ITEM): changes(on.dotted_table(DROP)),
    ("POST", f"{_ITEM}/distributions"): reads(on.dotted_table(READ)),
    ("PATCH", f"{_ITEM}/properties"): changes(on.dotted_table(WRITE)),
    ("PATCH", f"{_ITEM}/description"): changes(on.dotted_table(WRITE)),
    ("PATCH", f"{_ITEM}/policy"): changes(on.dotted_table(WRITE)),
    **{
        ("GET", f"{_ITEM}{part}"): reads(on.dotted_table(READ))
        for part in (
            "",
            "/snapshots",
            "/files",
            "/versions",
            "/quarantine",
            "/preview",
            "/columns",
            "/distributions/{query_id}",
            *_UPKEEP,
            *_PAST,
            *_STREAMS,
            *_CHANGES,
        )
    },
    **{
        ("POST", f"{_ITEM}/{verb}"): changes(on.dotted_table(MAINTAIN))
        for verb in ("quarantine/restore", "protect", "unprotect", "blockers")
    },
    ("POST", f"{_ITEM}/jobs"): changes(body_targets.started_job, audit_target.started_job),
    ("DELETE", f"{_ITEM}/blockers"): changes(on.dotted_table(MAINTAIN)),
    ("POST", f"{_ITEM}/register"): changes(body_targets.registered_dotted),
    ("PUT", f"{_ITEM}/refs/{{name:path}}"): changes(on.dotted_table(WRITE)),
    ("DELETE", f"{_ITEM}/refs/{{name:path}}"): changes(on.dotted_table(WRITE)),
    ("POST", f"{_ITEM}/refs/{{name:path}}/fast-forward"): changes(on.dotted_table(WRITE)),
    ("POST", f"{_ITEM}/rollback"): changes(on.dotted_table(WRITE)),
    ("POST", f"{_ITEM}/writers/{{writer}}"): changes(on.dotted_table(WRITE), audit_target.writer),
    ("DELETE", f"{_ITEM}/writers/{{writer}}"): changes(on.dotted_table(WRITE), audit_target.writer),
    ("POST", f"{_ITEM}/log/columns"): changes(body_targets.added_log_columns),
    ("POST", f"{_ITEM}/log/reset"): changes(on.dotted_table(WRITE), audit_target.log_reset),
    ("POST", f"{_ITEM}/log/skip"): changes(on.dotted_table(WRITE), audit_target.log_skip),
    ("POST", f"{_ITEM}/log/quarantine/drop"): changes(on.dotted_table(WRITE)),
    ("POST", f"{_ITEM}/log/quarantine/writer"): changes(body_targets.registered_at_quarantine),
    ("POST", f"{_ITEM}/consumers/{{consumer}}"): changes(on.dotted_table(READ), audit_target.consumer),
    ("DELETE", f"{_ITEM}/consumers/{{consumer}}"): changes(on.dotted_table(READ), audit_target.consumer),
}

_VIEWS: Rules = {
    ("GET", _SAVED): reads(on.dotted_view(READ)),
    ("DELETE", _SAVED): changes(on.dotted_view(DROP)),
    ("PATCH", f"{_SAVED}/description"): changes(on.dotted_view(WRITE)),
    ("POST", f"{_SAVED}/rollback"): changes(on.dotted_view(WRITE)),
}

_DROPPED: Rules = {
    ("GET", f"{_CATALOG}/dropped"): reads(on.catalog()),
    ("GET", f"{_CATALOG}/dropped/{{entry_id}}"): reads(on.dropped(READ)),
    ("POST", f"{_CATALOG}/dropped/{{entry_id}}/undrop"): changes(body_targets.brought_back),
    ("DELETE", f"{_CATALOG}/dropped/{{entry_id}}"): changes(on.dropped(READ, DROP)),
}

_IMPORTS: Rules = {
    ("POST", f"{_CATALOG}/imports"): changes(body_targets.imported),
    ("GET", f"{_CATALOG}/imports/{{operation_id}}/entries"): reads(on.operation(READ)),
    ("POST", f"{_CATALOG}/imports/{{operation_id}}/resume"): changes(on.operation(MAINTAIN)),
}

_HIVE_TABLES: Rules = {
    ("GET", f"{_CATALOG}/hive"): reads(on.catalog()),
    ("GET", f"{_CATALOG}/hive/databases"): reads(on.catalog()),
    ("GET", f"{_CATALOG}/hive/migration"): reads(on.catalog()),
    ("GET", f"{_CATALOG}/hive/migration/csv"): reads(on.catalog()),
    ("GET", f"{_CATALOG}/hive/views"): reads(on.catalog()),
    ("POST", f"{_CATALOG}/hive/views/{{full_name}}"): changes(body_targets.new_hive_view),
    ("GET", f"{_CATALOG}/hive/waves"): reads(on.catalog()),
    ("GET", f"{_CATALOG}/hive/waves/{{batch}}"): reads(on.batch(READ)),
    ("GET", f"{_CATALOG}/hive/waves/{{batch}}/csv"): reads(on.batch(READ)),
    ("POST", f"{_CATALOG}/hive/refresh"): changes(on.catalog(MAINTAIN)),
    ("POST", f"{_CATALOG}/hive/upgrade"): changes(body_targets.new_hive_tables),
    ("GET", f"{_CATALOG}/hive/upgrades/{{batch}}"): reads(on.batch(READ)),
    **{("POST", f"{_CATALOG}/hive/upgrades/{{batch}}/{verb}"): changes(on.batch(MAINTAIN)) for verb in _TURNS},
    ("GET", _HIVE): reads(on.hive_table(READ)),
    ("GET", f"{_HIVE}/history"): reads(on.hive_table(READ)),
    ("GET", f"{_HIVE}/superseded-directories"): reads(on.hive_table(READ)),
    ("POST", f"{_HIVE}/check"): reads(on.hive_table(READ)),
    ("POST", f"{_HIVE}/upgrade"): changes(body_targets.new_hive_table),
    ("POST", f"{_HIVE}/sync"): changes(on.hive_table(MAINTAIN)),
    ("GET", f"{_HIVE}/publish"): reads(on.hive_table(READ)),
    ("POST", f"{_HIVE}/publish"): changes(on.hive_table(MAINTAIN)),
    ("GET", f"{_HIVE}/convert"): reads(body_targets.would_convert),
    ("POST", f"{_HIVE}/convert"): changes(body_targets.converted),
    ("GET", f"{_HIVE}/downgrade"): reads(on.hive_table(READ)),
    ("POST", f"{_HIVE}/downgrade"): changes(on.hive_table(DROP)),
}

_WORK: Rules = {
    ("GET", "/jobs"): reads(anyone),
    ("GET", "/jobs/counts"): routine(anyone),
    ("GET", "/jobs/{job_id}"): reads(on.job(READ)),
    ("GET", "/jobs/{job_id}/logs"): reads(on.job(READ)),
    ("GET", "/jobs/{job_id}/deleted"): reads(on.job(READ)),
    ("POST", "/jobs/{job_id}/cancel"): changes(on.job(MAINTAIN)),
    ("POST", "/jobs/{job_id}/retry"): changes(on.job(MAINTAIN)),
    ("GET", "/streams"): reads(anyone),
    ("GET", "/streams/{stream_id}"): reads(on.stream(READ)),
    ("GET", "/streams/{stream_id}/logs"): reads(on.stream(READ)),
    **{("POST", f"/streams/{{stream_id}}/{verb}"): changes(on.stream(MAINTAIN)) for verb in _STREAM_TURNS},
    ("GET", "/operations"): reads(anyone),
    ("GET", "/operations/{operation_id}"): reads(on.operation(READ)),
    **{("POST", f"/operations/{{operation_id}}/{verb}"): changes(on.operation(MAINTAIN)) for verb in _TURNS},
    ("GET", "/events"): reads(anyone),
    ("GET", "/health"): routine(on.server(LIST)),
    ("GET", "/hadoop"): routine(on.server(LIST)),
    ("POST", "/hadoop/check"): changes(on.server(MAINTAIN)),
    # Passwords of other systems, and addresses to which the server connects.
    ("GET", "/connections"): reads(on.server(GRANT)),
    ("POST", "/connections"): changes(on.server(GRANT), audit_target.new_connection),
    ("GET", "/connections/{connection}"): reads(on.server(GRANT)),
    ("DELETE", "/connections/{connection}"): changes(on.server(GRANT), audit_target.connection),
    ("POST", "/connections/{connection}/check"): reads(on.server(GRANT)),
    ("GET", "/connections/{connection}/schemas/{number}"): reads(on.server(GRANT)),
    ("GET", "/connections/{connection}/topics"): reads(on.server(GRANT)),
    ("GET", "/connections/{connection}/topics/{topic}/sample"): reads(on.server(GRANT)),
    ("POST", f"{_CATALOG}/cdc/plan"): reads(on.server(GRANT)),
    # Addresses to which the server connects, and texts about all tables.
    ("GET", "/notifications"): reads(on.server(GRANT)),
    ("POST", "/notifications/{notification_id}/retry"): changes(on.server(GRANT), audit_target.notification),
    ("GET", "/notifications/rules"): reads(on.server(GRANT)),
    ("POST", "/notifications/rules"): changes(on.server(GRANT), audit_target.new_rule),
    ("GET", "/notifications/rules/{rule}"): reads(on.server(GRANT)),
    ("PATCH", "/notifications/rules/{rule}"): changes(on.server(GRANT), audit_target.rule),
    ("DELETE", "/notifications/rules/{rule}"): changes(on.server(GRANT), audit_target.rule),
    ("POST", "/notifications/rules/{rule}/retry"): changes(on.server(GRANT), audit_target.rule),
    ("POST", "/notifications/rules/{rule}/silence"): changes(on.server(GRANT), audit_target.rule),
    ("POST", "/notifications/rules/{rule}/test"): changes(on.server(GRANT), audit_target.rule),
    # An optimizer takes the next job of any table.
    ("GET", "/optimizers"): reads(on.server(LIST)),
    ("POST", "/optimizers"): changes(on.server(MAINTAIN)),
    ("DELETE", "/optimizers/{optimizer_id}"): changes(on.server(MAINTAIN)),
    ("GET", "/status"): routine(on.server(LIST)),
    ("GET", "/groups"): reads(on.server(LIST)),
    ("POST", "/groups"): changes(on.server(MAINTAIN)),
    ("GET", "/groups/{group}"): reads(on.server(LIST)),
    ("PUT", "/groups/{group}"): changes(on.server(MAINTAIN)),
    ("PATCH", "/groups/{group}"): changes(on.server(MAINTAIN)),
    ("DELETE", "/groups/{group}"): changes(on.server(MAINTAIN)),
    ("GET", "/groups/{group}/launch"): reads(on.server(LIST)),
    # Launch settings run commands on the server's machine.
    ("PUT", "/groups/{group}/launch"): changes(on.server(GRANT)),
    ("PATCH", "/groups/{group}/launch"): changes(on.server(GRANT)),
    # It shows a command with the server's paths.
    ("POST", "/groups/{group}/launch/dry-run"): reads(on.server(GRANT)),
    ("POST", "/groups/{group}/scale"): changes(on.server(MAINTAIN)),
    ("POST", "/optimizers/{optimizer_id}/drain"): changes(on.server(MAINTAIN)),
    ("POST", "/optimizers/{optimizer_id}/undrain"): changes(on.server(MAINTAIN)),
    # The answer has the password of a connection.
    ("POST", "/stream-leases"): routine(on.server(MAINTAIN)),
    ("PUT", "/stream-leases/{lease}"): routine(on.server(MAINTAIN)),
    ("POST", "/stream-leases/{lease}/report"): routine(on.server(MAINTAIN)),
    ("POST", "/leases"): routine(on.server(MAINTAIN)),
    ("PUT", "/leases/{lease}"): routine(on.server(MAINTAIN)),
    ("GET", "/leases/{lease}/table-locations"): reads(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/locations"): reads(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/committing"): reads(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/report"): reads(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/published"): changes(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/adopted"): changes(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/cleaned"): changes(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/pins"): changes(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/checkpoint"): changes(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/publish"): changes(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/chunks"): changes(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/chunk-takes"): changes(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/chunk-commits"): changes(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/image"): changes(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/image/complete"): changes(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/image/credentials"): changes(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/orphans"): changes(on.server(MAINTAIN)),
    ("POST", "/leases/{lease}/orphans/overdue"): changes(on.server(MAINTAIN)),
}

_PIPELINE = "/pipelines/{pipeline}"
_BACKFILLS = f"{_PIPELINE}/tables/{{table}}/backfills"
_PIPELINES: Rules = {
    ("GET", "/pipelines"): reads(anyone),
    ("GET", "/pipelines/schema"): reads(anyone),
    ("PUT", _PIPELINE): changes(body_targets.put_pipeline, audit_target.pipeline),
    ("DELETE", _PIPELINE): changes(on.pipeline(WRITE), audit_target.pipeline),
    ("POST", f"{_PIPELINE}/runs"): changes(on.pipeline(WRITE), audit_target.pipeline_run),
    **{
        ("POST", f"{_PIPELINE}/tables/{{table}}/{verb}"): changes(on.pipeline(WRITE), audit_target.pipeline_table(verb))
        for verb in ("reset", "publish", "discard")
    },
    ("POST", _BACKFILLS): changes(on.pipeline(WRITE), audit_target.backfill),
    ("POST", f"{_PIPELINE}/tables/{{table}}/replays"): changes(on.pipeline(WRITE), audit_target.backfill),
    **{
        ("POST", f"{_BACKFILLS}/{{backfill_id}}/{verb}"): changes(on.pipeline(WRITE), audit_target.backfill)
        for verb in ("pause", "resume", "cancel")
    },
    **{("GET", path): reads(on.pipeline(READ)) for path in (_BACKFILLS, f"{_BACKFILLS}/{{backfill_id}}")},
    **{
        ("GET", f"{_PIPELINE}{part}"): reads(on.pipeline(READ))
        for part in (
            *("", "/versions", "/versions/{version}", "/runs", "/runs/{job_id}", "/graph", "/lineage", "/plan"),
            "/tables/{table}/held",
        )
    },
}

_QUERY = "/queries/{query_id}"
# The service shows a query to nobody but its owner, and a saved query that is not shared, too.
_QUERIES: Rules = {
    ("POST", "/queries"): reads(body_targets.queried),
    ("GET", "/queries"): reads(anyone),
    ("GET", "/queries/settings"): routine(anyone),
    ("GET", _QUERY): routine(anyone),
    ("DELETE", _QUERY): reads(anyone),
    **{("GET", f"{_QUERY}/{part}"): reads(on.query) for part in ("rows", "csv", "parquet")},
    # An optimizer gets statements of all people, and the rows that it sends are shown to them.
    ("POST", "/query-leases"): routine(on.server(MAINTAIN)),
    ("PUT", "/query-leases/{lease}"): routine(on.server(MAINTAIN)),
    ("POST", "/query-leases/{lease}/locations"): routine(on.server(MAINTAIN)),
    ("PUT", "/query-leases/{lease}/parts"): routine(on.server(MAINTAIN)),
    ("POST", "/query-leases/{lease}/report"): routine(on.server(MAINTAIN)),
    ("GET", "/saved-queries"): reads(anyone),
    # Its hits are those objects that the caller may see. The console sends one with each keystroke.
    ("GET", "/search"): routine(anyone),
    # The service checks the privileges on each table of an event. Runs send many, which would flood the audit log.
    ("POST", "/lineage"): routine(anyone),
    ("POST", "/lineage/batch"): routine(anyone),
    ("POST", "/saved-queries"): changes(anyone, audit_target.new_saved_query),
    ("PUT", "/saved-queries/{saved_id}"): changes(anyone, audit_target.saved_query),
    ("DELETE", "/saved-queries/{saved_id}"): changes(anyone, audit_target.saved_query),
}

_ACCESS: Rules = {
    ("GET", "/login"): PUBLIC,
    ("GET", "/me"): routine(anyone),
    # The services check these: every caller has own tokens, and nobody can grant more than their own privileges.
    ("GET", "/tokens"): reads(anyone),
    ("POST", "/tokens"): changes(anyone, audit_target.new_token),
    ("DELETE", "/tokens/{token_id}"): changes(anyone, audit_target.token),
    ("GET", "/roles"): reads(anyone),
    ("GET", "/roles/{role}"): reads(anyone),
    ("POST", "/roles"): changes(on.server(GRANT), audit_target.new_role),
    ("DELETE", "/roles/{role}"): changes(on.server(GRANT), audit_target.role),
    ("POST", "/roles/{role}/grants"): changes(anyone, audit_target.grant),
    ("POST", "/roles/{role}/grants/revoke"): changes(anyone, audit_target.grant),
    ("PUT", "/roles/{role}/members/{name}"): changes(anyone, audit_target.member),
    ("DELETE", "/roles/{role}/members/{name}"): changes(anyone, audit_target.member),
    **{("GET", f"/{kind}s{path}"): reads(on.server(GRANT)) for kind in ("user", "service") for path in ("", "/{name}")},
    **{
        (method, f"/{kind}s{path}"): changes(on.server(GRANT), audit_target.principal(kind))
        for kind in ("user", "service")
        for method, path in (
            ("DELETE", "/{name}"),
            ("POST", "/{name}/disable"),
            ("POST", "/{name}/enable"),
        )
    },
    ("POST", "/users"): changes(on.server(GRANT), audit_target.new_principal("user", UserIn)),
    ("POST", "/services"): changes(on.server(GRANT), audit_target.new_principal("service", ServiceIn)),
    ("POST", "/services/{name}/secret"): changes(on.server(GRANT), audit_target.principal("service")),
    ("GET", "/audit"): reads(on.server(GRANT)),
}

API: Rules = {
    **_CATALOGS,
    **_TABLES,
    **_VIEWS,
    **_DROPPED,
    **_IMPORTS,
    **_HIVE_TABLES,
    **_WORK,
    **_PIPELINES,
    **_QUERIES,
    **_ACCESS,
}
