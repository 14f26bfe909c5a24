/** Where pages are. Every link of the console is built here. */

const catalog = (name: string): string => `/c/${encodeURIComponent(name)}`;

export const paths = {
  home: (name: string) => catalog(name),
  tables: (name: string, namespace?: string) =>
    `${catalog(name)}/tables${namespace === undefined ? '' : `?database=${encodeURIComponent(namespace)}`}`,
  table: (name: string, table: string, tab?: string) =>
    `${catalog(name)}/tables/${encodeURIComponent(table)}${tab === undefined ? '' : `?tab=${tab}`}`,
  hive: (name: string) => `${catalog(name)}/hive`,
  upgrade: (name: string, table: string, operation?: string | null) =>
    `${catalog(name)}/hive/${encodeURIComponent(table)}/upgrade${operation ? `?operation=${operation}` : ''}`,
  imports: (name: string, operation?: string | null) => `${catalog(name)}/import${operation ? `?operation=${operation}` : ''}`,
  jobs: () => '/jobs',
  job: (id: string) => `/jobs/${id}`,
  optimizers: () => '/optimizers',
  settings: () => '/settings',
};

/** `db.orders` as its database and its own name; a namespace may have dots itself. */
export function split(table: string): { namespace: string; name: string } {
  const dot = table.lastIndexOf('.');
  return dot < 0 ? { namespace: '', name: table } : { namespace: table.slice(0, dot), name: table.slice(dot + 1) };
}

export function fullName(row: { namespace: string; name: string }): string {
  return row.namespace === '' ? row.name : `${row.namespace}.${row.name}`;
}
