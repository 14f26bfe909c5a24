/** What somebody may do, as the server decides it. Here it only chooses what is offered: the server decides again. */
import { dotted, partsOf } from './names';

export const PRIVILEGES = ['list', 'read', 'write', 'create', 'drop', 'maintain', 'grant'] as const;
export type Privilege = (typeof PRIVILEGES)[number];

/** What each brings along; see catalog/access/privileges.py. */
const INCLUDES: Record<Privilege, readonly Privilege[]> = {
  list: [],
  read: ['list'],
  write: ['read', 'list'],
  create: [],
  drop: ['list'],
  maintain: ['read', 'list'],
  grant: ['list'],
};

/** The server (no catalog), a catalog, a namespace, or a table of one. */
export interface Scope {
  catalog: string | null;
  namespace: readonly string[];
  table: string | null;
}

export interface Granted {
  on: Scope;
  privileges: readonly string[];
}

export interface Need {
  privilege: Privilege;
  on: Scope;
}

export const SERVER: Scope = { catalog: null, namespace: [], table: null };

export function scopeOf(catalog: string, namespace: readonly string[] = [], table: string | null = null): Scope {
  return { catalog, namespace, table };
}

/** A table or view by its dotted name, as the server says it. */
export function onTable(catalog: string, name: string): Scope {
  const parts = partsOf(name);
  return scopeOf(catalog, parts.slice(0, -1), parts.at(-1) ?? name);
}

/** All of these privileges on one thing. */
export function need(on: Scope, ...privileges: Privilege[]): Need[] {
  return privileges.map((privilege) => ({ privilege, on }));
}

export function scopeText({ catalog, namespace, table }: Scope): string {
  if (catalog === null) return 'server';
  return dotted([catalog, ...namespace, ...(table === null ? [] : [table])]);
}

/** Whether the other is this one or lies in it. */
export function holds(scope: Scope, other: Scope): boolean {
  if (scope.catalog === null) return true;
  if (scope.catalog !== other.catalog) return false;
  if (scope.namespace.some((part, index) => other.namespace[index] !== part)) return false;
  if (scope.table === null) return true;
  return scope.table === other.table && scope.namespace.length === other.namespace.length;
}

function gives(granted: Granted, privilege: Privilege): boolean {
  return granted.privileges.some((item) => item === privilege || INCLUDES[item as Privilege].includes(privilege));
}

export function has(grants: readonly Granted[], { privilege, on }: Need): boolean {
  return grants.some((grant) => holds(grant.on, on) && gives(grant, privilege));
}

/** Why a privilege that was not granted there holds there all the same; null when it does not. */
export function impliedBy(grants: readonly Granted[], { privilege, on }: Need): string | null {
  const here = grants.find((grant) => scopeText(grant.on) === scopeText(on) && gives(grant, privilege));
  if (here !== undefined) return `comes with ${here.privileges.find((item) => INCLUDES[item as Privilege].includes(privilege)) ?? privilege}`;
  const above = grants.find((grant) => holds(grant.on, on) && gives(grant, privilege));
  return above === undefined ? null : `from ${scopeText(above.on)}`;
}

/** "list, read on lake.sales": what is brought along is left out. */
export function grantText({ on, privileges }: Granted): string {
  const highest = privileges.filter((privilege) => !privileges.some((other) => INCLUDES[other as Privilege].includes(privilege as Privilege)));
  return `${highest.length === PRIVILEGES.length - 2 ? 'everything' : highest.join(', ')} on ${on.catalog === null ? 'the server' : scopeText(on)}`;
}
