import { expect, it } from 'vitest';

import { auditText } from './audit';

it.each([
  ['PUT', '/api/v1/roles/{role}/members/{name}', 'role analysts', 'member ada', 'gave ada the role analysts'],
  ['DELETE', '/api/v1/roles/{role}/members/{name}', 'role analysts', 'member ada', 'took the role analysts from ada'],
  ['POST', '/api/v1/roles/{role}/grants', 'role analysts', 'read on lake.sales', 'granted analysts read on lake.sales'],
  ['POST', '/api/v1/catalogs/{catalog}/tables', 'lake.db', '', 'created table'],
  ['POST', '/api/v1/catalogs/{catalog}/tables/{table}/jobs', 'lake.db.t', 'rewrite', 'requested a job for table'],
  ['POST', '/api/v1/catalogs/{catalog}/tables/{table}/blockers', 'lake.db.t', '', 'paused optimization of table'],
  ['DELETE', '/api/v1/catalogs/{catalog}/tables/{table}/blockers', 'lake.db.t', '', 'resumed optimization of table'],
  ['POST', '/api/v1/catalogs/{catalog}/tables/{table}/protect', 'lake.db.t', '', 'protected table'],
  ['POST', '/api/v1/catalogs/{catalog}/tables/{table}/rollback', 'lake.db.t', '', 'rolled back table'],
  ['POST', '/api/v1/catalogs/{catalog}/hive/{full_name}/sync', 'lake.db.t', '', 'synced Hive table'],
  ['POST', '/api/v1/catalogs/{catalog}/hive/refresh', 'lake', '', 'refreshed the list of Hive tables'],
  ['POST', '/api/v1/jobs/{job_id}/retry', 'job', '', 'retried job'],
  ['POST', '/api/v1/services/{name}/secret', 'service etl', '', 'renewed the secret of service'],
  ['PATCH', '/api/v1/catalogs/{catalog}/policy', 'lake', '', 'changed policy'],
  ['POST', '/iceberg/v1/{catalog}/namespaces/{namespace}/tables/{table}', 'lake.db.t', '', 'committed to table'],
  ['POST', '/iceberg/v1/{catalog}/tables/rename', 'lake.db.t', '', 'renamed table'],
  ['DELETE', '/iceberg/v1/{catalog}/namespaces/{namespace}/tables/{table}', 'lake.db.t', '', 'dropped table'],
  ['GET', '/api/v1/catalogs/{catalog}/tables', 'lake', '', 'read tables'],
])('%s %s on %s is a sentence', (method, route, target, detail, text) => {
  expect(auditText({ method, route, target, detail, verdict: 'allowed', status: 200, changes: true })).toBe(text);
});

const DROP = { method: 'DELETE', route: '/api/v1/catalogs/{catalog}/tables/{table}', target: 'lake.db.t', detail: '', changes: true };

it.each(['forbidden', 'hidden', 'unauthenticated'] as const)('a request that is %s was refused, not done', (verdict) => {
  expect(auditText({ ...DROP, verdict, status: 403 })).toBe('was refused: drop table');
});

it('a refused assignment names role and user', () => {
  const entry = { method: 'PUT', route: '/api/v1/roles/{role}/members/{name}', target: 'role analysts', detail: 'member ada', changes: true };
  expect(auditText({ ...entry, verdict: 'forbidden', status: 403 })).toBe('was refused: give ada the role analysts');
});

it('an allowed request that ended with an error has failed', () => {
  expect(auditText({ ...DROP, verdict: 'allowed', status: 409 })).toBe('failed: drop table');
});

it('a change without a recorded end has an unknown outcome', () => {
  expect(auditText({ ...DROP, verdict: 'allowed', status: null })).toBe('unknown outcome: drop table');
});
