/** Titles of background tasks. A task that this console does not know shows its name. */
const TASK_TITLES: Record<string, string> = {
  plan: 'Planner',
  count_files: 'File layouts',
  index_search: 'Search index',
  sample_trends: 'Samples of trends',
  reap: 'Expired leases',
  pipelines: 'Runs of pipelines',
  lineage: 'OpenLineage events',
  collect_lineage: 'Lineage',
  tidy_lineage: 'Old lineage',
  notify: 'Notifications',
  send_events: 'Table events',
  tidy_notifications: 'Old messages of rules',
  reap_streams: 'Expired leases of streams',
  reap_queries: 'Expired leases of queries',
  measure_streams: 'Lag of streams',
  fleet: 'Optimizer launches',
  list_hive: 'Hive table index',
  upgrade: 'Upgrades',
  sync: 'Hive syncs',
  hear_hive: 'Notification logs',
  publish: 'Publishes',
  downgrade: 'Downgrades',
  marks: 'Publisher marks',
  import: 'Imports',
  purge: 'Purges',
  images: 'Old images',
  reports: 'Metrics reports',
  tidy_reports: 'Old metrics reports',
  tidy: 'Cleanup',
  tidy_queries: 'Old queries and results',
  idle_engines: 'Idle engines of queries',
  audit: 'Audit log',
  tidy_access: 'Old audit entries and tokens',
  check_hadoop: 'HDFS clusters',
  renew_ticket: 'Kerberos ticket',
};

/** "Hive syncs" for the task `sync`. */
export function taskTitle(task: string): string {
  return TASK_TITLES[task] ?? task.replaceAll('_', ' ');
}
