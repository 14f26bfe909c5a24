/** Entries of the audit log as sentences. Nothing here knows React. */
import type { AuditEntry } from '../api/types';

type Entry = Pick<AuditEntry, 'method' | 'route' | 'target' | 'detail' | 'verdict' | 'status' | 'changes'>;
/** A verb of a sentence in the form that the entry needs: "drop" for a refused request, else "dropped". */
type Verb = (infinitive: string) => string;
type Sentence = (entry: Entry, verb: Verb) => string;

const role = (target: string): string => target.replace(/^role /, '');
const member = (detail: string): string => detail.replace(/^member /, '');

const PAST: Record<string, string> = {
  change: 'changed',
  create: 'created',
  drop: 'dropped',
  give: 'gave',
  grant: 'granted',
  read: 'read',
  revoke: 'revoked',
  run: 'ran',
  set: 'set',
  take: 'took',
};

/** By method and route of the management API; other entries get a verb of the method and a noun of the route. */
const SENTENCES: Record<string, Sentence> = {
  'PUT /roles/{role}/members/{name}': ({ target, detail }, verb) => `${verb('give')} ${member(detail)} the role ${role(target)}`,
  'DELETE /roles/{role}/members/{name}': ({ target, detail }, verb) => `${verb('take')} the role ${role(target)} from ${member(detail)}`,
  'POST /roles/{role}/grants': ({ target, detail }, verb) => `${verb('grant')} ${role(target)} ${detail}`,
  'POST /roles/{role}/grants/revoke': ({ target, detail }, verb) => `${verb('revoke')} ${detail} from ${role(target)}`,
  'POST /roles': ({ target }, verb) => `${verb('create')} the role ${role(target)}`,
  'DELETE /roles/{role}': ({ target }, verb) => `${verb('drop')} the role ${role(target)}`,
};

const VERBS: Record<string, string> = { GET: 'read', HEAD: 'read', POST: 'create', PUT: 'set', PATCH: 'change', DELETE: 'drop' };

/** "gave ada the role analysts", "dropped table"; "was refused: drop table", "failed: …", "unknown outcome: …". */
export function auditText(entry: Entry): string {
  const outcome = withoutEffect(entry);
  if (outcome !== null) return `${outcome}: ${describe(entry, (infinitive) => infinitive)}`;
  return describe(entry, (infinitive) => PAST[infinitive] ?? infinitive);
}

/** Why the request did not happen, or may not have; null if it did. */
function withoutEffect({ verdict, status, changes }: Entry): string | null {
  if (verdict !== 'allowed') return 'was refused';
  if (status === null) return changes ? 'unknown outcome' : null;
  return status >= 400 ? 'failed' : null;
}

function describe(entry: Entry, verb: Verb): string {
  const route = entry.route.replace(/^\/(api|iceberg)\/v1/, '');
  const sentence = SENTENCES[`${entry.method} ${route}`];
  if (sentence !== undefined) return sentence(entry, verb);
  const parts = route.split('/').filter((part) => part !== '');
  const things = parts.filter((part) => !part.startsWith('{')).map((part) => part.replaceAll('-', ' '));
  const last = things.at(-1) ?? 'server';
  const isAction = entry.method === 'POST' && parts.at(-2)?.startsWith('{') === true;
  if (isAction) return `${verb('run')} ${last}`;
  const isSingular = parts.at(-1)?.startsWith('{') === true || entry.method === 'POST';
  return `${verb(VERBS[entry.method] ?? entry.method)} ${isSingular ? last.replace(/ies$/, 'y').replace(/s$/, '') : last}`;
}
