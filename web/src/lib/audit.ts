/** Entries of the audit log as sentences. Nothing here knows React. */
import type { AuditEntry } from '../api/types';

type Sentence = (entry: Pick<AuditEntry, 'target' | 'detail'>) => string;

const role = (target: string): string => target.replace(/^role /, '');
const member = (detail: string): string => detail.replace(/^member /, '');

/** By method and route of the management API; of other changes the verb and the thing are told. */
const SENTENCES: Record<string, Sentence> = {
  'PUT /roles/{role}/members/{name}': ({ target, detail }) => `gave ${member(detail)} the role ${role(target)}`,
  'DELETE /roles/{role}/members/{name}': ({ target, detail }) => `took the role ${role(target)} from ${member(detail)}`,
  'POST /roles/{role}/grants': ({ target, detail }) => `granted ${role(target)} ${detail}`,
  'POST /roles/{role}/grants/revoke': ({ target, detail }) => `revoked ${detail} from ${role(target)}`,
  'POST /roles': ({ target }) => `created the role ${role(target)}`,
  'DELETE /roles/{role}': ({ target }) => `dropped the role ${role(target)}`,
};

const VERBS: Record<string, string> = { GET: 'read', HEAD: 'read', POST: 'created', PUT: 'set', PATCH: 'changed', DELETE: 'dropped' };

/** "gave ada the role analysts", "dropped table", "rewrite: table". */
export function auditText(entry: Pick<AuditEntry, 'method' | 'route' | 'target' | 'detail'>): string {
  const route = entry.route.replace(/^\/(api|iceberg)\/v1/, '');
  const sentence = SENTENCES[`${entry.method} ${route}`];
  if (sentence !== undefined) return sentence(entry);
  const parts = route.split('/').filter((part) => part !== '');
  const things = parts.filter((part) => !part.startsWith('{')).map((part) => part.replaceAll('-', ' '));
  const last = things.at(-1) ?? 'server';
  const isAction = entry.method === 'POST' && parts.at(-2)?.startsWith('{') === true;
  if (isAction) return `ran ${last}`;
  const isOne = parts.at(-1)?.startsWith('{') === true || entry.method === 'POST';
  return `${VERBS[entry.method] ?? entry.method} ${isOne ? last.replace(/ies$/, 'y').replace(/s$/, '') : last}`;
}
