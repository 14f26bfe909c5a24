/** Entries of the audit log as sentences. Nothing here knows React. */
import type { AuditEntry } from '../api/types';

type Entry = Pick<AuditEntry, 'method' | 'route' | 'target' | 'detail' | 'verdict' | 'status' | 'changes'>;
/** A verb of a sentence in the form that the entry needs: "drop" for a refused request, else "dropped". */
type Verb = (infinitive: string) => string;
type Sentence = (entry: Entry, verb: Verb) => string;

const role = (target: string): string => target.replace(/^role /, '');
const member = (detail: string): string => detail.replace(/^member /, '');

/** The past of verbs; others get "ed", or "d" after an e. */
const IRREGULAR: Record<string, string> = {
  commit: 'committed',
  drop: 'dropped',
  give: 'gave',
  plan: 'planned',
  read: 'read',
  set: 'set',
  take: 'took',
  undrop: 'undropped',
};

/** The past of a phrase's first word: "roll back" as "rolled back". */
function past(phrase: string): string {
  const [first = '', ...rest] = phrase.split(' ');
  const form = IRREGULAR[first] ?? (first.endsWith('e') ? `${first}d` : `${first}ed`);
  return [form, ...rest].join(' ');
}

/** Last parts of routes that do something with what is before them, where the verb is another word. */
const ACTIONS: Record<string, string> = {
  blockers: 'pause optimization of',
  commit: 'commit',
  'fast-forward': 'fast-forward',
  jobs: 'request a job for',
  metrics: 'report metrics of',
  plan: 'plan a scan of',
  properties: 'change properties of',
  restore: 'restore files of',
  rollback: 'roll back',
  secret: 'renew the secret of',
  sign: 'sign a request for',
  undrain: 'resume',
  unprotect: 'remove the protection of',
};
/** Those whose verb is the part itself. */
const VERBATIM = ['cancel', 'check', 'convert', 'disable', 'downgrade', 'drain', 'enable', 'pause', 'protect', 'publish', 'refresh', 'register', 'rename', 'resume', 'retry', 'scale', 'sync', 'undrop', 'upgrade'];
for (const verb of VERBATIM) ACTIONS[verb] = verb;
IRREGULAR.retry = 'retried';

const NOUNS: Record<string, string> = { dropped: 'dropped table', hive: 'Hive table', quarantine: 'quarantine', refs: 'branch or tag' };

/** A collection of the API as one of its things: "policies" as "policy". */
function singular(collection: string): string {
  return NOUNS[collection] ?? collection.replaceAll('-', ' ').replace(/ies$/, 'y').replace(/s$/, '');
}

/** By method and route of the management API; other entries get a verb of the method and a noun of the route. */
const SENTENCES: Record<string, Sentence> = {
  'PUT /roles/{role}/members/{name}': ({ target, detail }, verb) => `${verb('give')} ${member(detail)} the role ${role(target)}`,
  'DELETE /roles/{role}/members/{name}': ({ target, detail }, verb) => `${verb('take')} the role ${role(target)} from ${member(detail)}`,
  'POST /roles/{role}/grants': ({ target, detail }, verb) => `${verb('grant')} ${role(target)} ${detail}`,
  'POST /roles/{role}/grants/revoke': ({ target, detail }, verb) => `${verb('revoke')} ${detail} from ${role(target)}`,
  'POST /roles': ({ target }, verb) => `${verb('create')} the role ${role(target)}`,
  'DELETE /catalogs/{catalog}/tables/{table}/blockers': (_, verb) => `${verb('resume')} optimization of table`,
  'POST /catalogs/{catalog}/hive/refresh': (_, verb) => `${verb('refresh')} the list of Hive tables`,
  'POST /optimizers': (_, verb) => `${verb('register')} an optimizer`,
  'GET /me': (_, verb) => `${verb('read')} who is signed in`,
  'DELETE /roles/{role}': ({ target }, verb) => `${verb('drop')} the role ${role(target)}`,
};

const VERBS: Record<string, string> = { GET: 'read', HEAD: 'read', PUT: 'set', PATCH: 'change', DELETE: 'drop' };

/** "gave ada the role analysts", "dropped table"; "was refused: drop table", "failed: …", "unknown outcome: …". */
export function auditText(entry: Entry): string {
  const outcome = withoutEffect(entry);
  if (outcome !== null) return `${outcome}: ${describe(entry, (infinitive) => infinitive)}`;
  return describe(entry, past);
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
  const things = parts.filter((part) => !part.startsWith('{'));
  const last = things.at(-1) ?? 'server';
  const endsWithName = parts.at(-1)?.startsWith('{') === true;
  if (entry.method !== 'POST') return `${verb(VERBS[entry.method] ?? entry.method)} ${endsWithName ? singular(last) : last.replaceAll('-', ' ')}`;
  if (endsWithName) return `${verb('commit to')} ${singular(last)}`;
  const action = things.length > 1 ? ACTIONS[last] : undefined;
  return action === undefined ? `${verb('create')} ${singular(last)}` : `${verb(action)} ${singular(things.at(-2) ?? '')}`;
}
