/** Where pages are. Every link of the console is built here. */
import { dotted, partsOf } from './names';

const catalog = (name: string): string => `/c/${encodeURIComponent(name)}`;

export const paths = {
  home: (name: string) => catalog(name),
  tables: (name: string, namespace?: string) =>
    `${catalog(name)}/tables${namespace === undefined ? '' : `?database=${encodeURIComponent(namespace)}`}`,
  policies: (name: string, namespace?: string) =>
    `${catalog(name)}/policies${namespace === undefined || namespace === '' ? '' : `?database=${encodeURIComponent(namespace)}`}`,
  trends: (name: string, namespace?: string) => `${catalog(name)}/trends${namespace === undefined || namespace === '' ? '' : `?database=${encodeURIComponent(namespace)}`}`,
  dropped: (name: string) => `${catalog(name)}/tables?kind=dropped`,
  table: (name: string, table: string, tab?: string) =>
    `${catalog(name)}/tables/${encodeURIComponent(table)}${tab === undefined ? '' : `?tab=${tab}`}`,
  hive: (name: string) => `${catalog(name)}/hive`,
  migration: (name: string) => `${catalog(name)}/migration`,
  upgrade: (name: string, table: string, operation?: string | null) =>
    `${catalog(name)}/hive/${encodeURIComponent(table)}/upgrade${operation ? `?operation=${operation}` : ''}`,
  whyNotUpgraded: (name: string, table: string) => `${catalog(name)}/hive/${encodeURIComponent(table)}/upgrade?step=1`,
  upgradeMany: (name: string, asked: Record<string, string>) => `${catalog(name)}/hive/upgrade?${new URLSearchParams(asked).toString()}`,
  imports: (name: string, operation?: string | null) => `${catalog(name)}/import${operation ? `?operation=${operation}` : ''}`,
  sql: (name: string, statement?: string) => `${catalog(name)}/sql${statement === undefined ? '' : `?sql=${encodeURIComponent(statement)}`}`,
  cdc: (name: string) => `${catalog(name)}/cdc`,
  status: () => '/status',
  jobs: () => '/jobs',
  job: (id: string) => `/jobs/${id}`,
  streams: (stream?: string) => (stream === undefined ? '/streams' : `/streams?stream=${stream}`),
  pipelines: () => '/pipelines',
  pipeline: (name: string, tab?: string) => `/pipelines/${encodeURIComponent(name)}${tab === undefined ? '' : `?tab=${tab}`}`,
  optimizers: () => '/optimizers',
  notifications: (rule?: string) => (rule === undefined ? '/notifications' : `/notifications?rule=${encodeURIComponent(rule)}`),
  access: () => '/access',
  people: () => '/access/people',
  tokens: () => '/access/tokens',
  roles: () => '/access/roles',
  role: (name: string) => `/access/roles/${encodeURIComponent(name)}`,
  audit: (filter: Record<string, string> = {}) => {
    const query = new URLSearchParams(filter).toString();
    return `/access/audit${query === '' ? '' : `?${query}`}`;
  },
  settings: () => '/settings',
};

/** `db.orders` as its database, which may have several parts, and its own name. */
export function split(table: string): { namespace: string; name: string } {
  const parts = partsOf(table);
  return { namespace: dotted(parts.slice(0, -1)), name: parts.at(-1) ?? table };
}

export function fullName(row: { namespace: string; name: string }): string {
  const name = dotted([row.name]);
  return row.namespace === '' ? name : `${row.namespace}.${name}`;
}
