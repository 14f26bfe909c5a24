/** The console's own part of the search: its pages, hits by group, and the tables looked at last. */
import type { Me, SearchHit } from '../api/types';
import { has, SERVER, type Need } from './access';
import { paths } from './paths';

export interface Place {
  label: string;
  /** Other words by which people look for it. */
  words: string;
  to: string;
}

const SEES_SERVER: Need = { privilege: 'list', on: SERVER };
const GRANTS: Need = { privilege: 'grant', on: SERVER };

/** Pages, and what can be done there, for those who may see them. */
export function placesFor(me: Pick<Me, 'access' | 'grants'>, catalog: string, catalogs: readonly string[]): Place[] {
  const may = (need: Need) => !me.access || has(me.grants, need);
  const of = (allowed: boolean, ...places: Place[]) => (allowed ? places : []);
  return [
    { label: 'Home', words: 'overview start', to: paths.home(catalog) },
    { label: 'Tables', words: 'list views create', to: paths.tables(catalog) },
    { label: 'Dropped tables', words: 'undrop restore deleted', to: paths.dropped(catalog) },
    { label: 'SQL', words: 'query editor', to: paths.sql(catalog) },
    { label: 'Hive', words: 'metastore upgrade sync', to: paths.hive(catalog) },
    { label: 'Migration of a metastore', words: 'hive upgrade waves', to: paths.migration(catalog) },
    { label: 'Policies', words: 'settings retention schedule', to: paths.policies(catalog) },
    { label: 'Import tables', words: 'register catalog', to: paths.imports(catalog) },
    { label: 'Jobs', words: 'merge rewrite expire maintenance', to: paths.jobs() },
    { label: 'Streams', words: 'kafka', to: paths.streams() },
    { label: 'Pipelines', words: 'transformations runs', to: paths.pipelines() },
    ...of(may(SEES_SERVER), { label: 'Status', words: 'queue work background', to: paths.status() }, { label: 'Optimizers', words: 'groups workers', to: paths.optimizers() }),
    ...of(may(GRANTS), { label: 'Notifications', words: 'alerts webhook slack mail rules', to: paths.notifications() }, { label: 'Copy tables by change data capture', words: 'cdc debezium kafka', to: paths.cdc(catalog) }),
    ...of(me.access && may(GRANTS), { label: 'People and services', words: 'access users principals', to: paths.people() }, { label: 'Audit', words: 'access log', to: paths.audit() }),
    ...of(me.access, { label: 'Tokens', words: 'access', to: paths.tokens() }, { label: 'Roles', words: 'access grants privileges', to: paths.roles() }),
    { label: 'Settings', words: 'catalogs connections server', to: paths.settings() },
    ...catalogs.filter((name) => name !== catalog).map((name) => ({ label: `Catalog ${name}`, words: 'switch', to: paths.home(name) })),
  ];
}

const wordsOf = (text: string): string[] => text.toLowerCase().split(/[^\p{L}\p{N}\p{M}]+/u).filter((word) => word !== '');

/** Whether each typed word begins a word of the text. */
export function covers(typed: string, text: string): boolean {
  const there = wordsOf(text);
  return wordsOf(typed).every((word) => there.some((candidate) => candidate.startsWith(word)));
}

export function findPlaces(places: readonly Place[], typed: string): Place[] {
  const named = places.filter(({ label }) => covers(typed, label));
  return [...named, ...places.filter((place) => !named.includes(place) && covers(typed, `${place.label} ${place.words}`))];
}

/**
 * Whether a hit for an earlier text is one for this text, too: the server's answers come later than keystrokes, and Enter
 * must never open what no longer fits. A quoted comment may be cut, so a hit may be left out for a moment.
 */
export function fits(hit: SearchHit, typed: string, foundFor: string): boolean {
  if (typed === foundFor) return true;
  return covers(typed, `${hit.name} ${hit.text} ${hit.id ?? ''}`) || hit.name.toLowerCase().startsWith(typed.toLowerCase());
}

export interface Group {
  label: string;
  hits: SearchHit[];
}

const GROUPS: [string, (hit: SearchHit) => boolean][] = [
  ['Tables', (hit) => (hit.kind === 'table' || hit.kind === 'view') && hit.part === 'name'],
  ['Columns, comments and labels', (hit) => (hit.kind === 'table' || hit.kind === 'view') && hit.part !== 'name'],
  ['Namespaces and catalogs', (hit) => hit.kind === 'namespace' || hit.kind === 'catalog'],
  ['Hive', (hit) => hit.kind === 'hive_table'],
  ['Pipelines', (hit) => hit.kind === 'pipeline'],
  ['Queries', (hit) => hit.kind === 'query'],
  ['Jobs', (hit) => hit.kind === 'job'],
  ['Optimizer groups', (hit) => hit.kind === 'group'],
  ['Policy settings', (hit) => hit.kind === 'setting'],
];

/** Hits by group; those of the catalog that one is in come first, in the order of the server otherwise. */
export function groupHits(hits: readonly SearchHit[], catalog: string): Group[] {
  const far = (hit: SearchHit) => Number(hit.catalog !== null && hit.catalog !== catalog);
  return GROUPS.map(([label, belongs]) => ({
    label,
    hits: hits.filter(belongs).toSorted((one, other) => far(one) - far(other)),
  })).filter((group) => group.hits.length > 0);
}

export const keyOf = (hit: SearchHit): string => [hit.kind, hit.catalog, hit.name, hit.id, hit.part, hit.column].join('\n');

/** Where a hit leads. A saved query needs its statement, which the list of them has. */
export function pathOf(hit: SearchHit, catalog: string): string {
  const where = hit.catalog ?? catalog;
  switch (hit.kind) {
    case 'hive_table':
      return paths.upgrade(where, hit.name);
    case 'namespace':
      return paths.tables(where, hit.name);
    case 'catalog':
      return paths.tables(where);
    case 'pipeline':
      return paths.pipeline(hit.name);
    case 'job':
      return paths.job(hit.id ?? '');
    case 'group':
      return paths.optimizers();
    case 'setting':
      return `${paths.policies(catalog)}?find=${encodeURIComponent(hit.name)}`;
    case 'query':
      return paths.sql(where);
    default:
      return paths.table(where, hit.name);
  }
}

/** What stands below the name of a hit. */
export function describeHit(hit: SearchHit, catalog: string): string {
  const elsewhere = hit.catalog !== null && hit.catalog !== catalog ? `in ${hit.catalog}` : '';
  const kind = hit.kind === 'view' ? 'view' : hit.detail;
  const job = hit.kind === 'job' ? (hit.id ?? '').slice(0, 8) : '';
  return [hit.text === '' ? kind : hit.text, job, elsewhere].filter((part) => part !== '').join(' · ');
}

export interface Recent {
  catalog: string;
  table: string;
}

const KEPT = 8;
const keyFor = (who: string | null) => `firn.recent.${who ?? ''}`;

/** The tables that somebody has looked at last in this browser, the last one first. */
export function recentTables(who: string | null): Recent[] {
  try {
    return readTables(localStorage.getItem(keyFor(who))).slice(0, KEPT);
  } catch {
    return [];
  }
}

/** Tables as the browser keeps them. Other programs and people may write there: all else is left out. */
export function readTables(text: string | null | undefined): Recent[] {
  try {
    const stored: unknown = JSON.parse(text ?? '[]');
    return Array.isArray(stored) ? stored.filter(isRecent).map(({ catalog, table }) => ({ catalog, table })) : [];
  } catch {
    return [];
  }
}

export function rememberTable(who: string | null, seen: Recent): void {
  const others = recentTables(who).filter(({ catalog, table }) => catalog !== seen.catalog || table !== seen.table);
  try {
    localStorage.setItem(keyFor(who), JSON.stringify([seen, ...others].slice(0, KEPT)));
  } catch {
    // A browser without room for it, or that keeps nothing: the list stays as it is.
  }
}

/** A table that is gone, or that was renamed, is not offered again. */
export function forgetTable(who: string | null, gone: Recent): void {
  const others = recentTables(who).filter(({ catalog, table }) => catalog !== gone.catalog || table !== gone.table);
  try {
    localStorage.setItem(keyFor(who), JSON.stringify(others));
  } catch {
    // As above.
  }
}

function isRecent(value: unknown): value is Recent {
  return typeof value === 'object' && value !== null && 'catalog' in value && typeof value.catalog === 'string' && 'table' in value && typeof value.table === 'string';
}
