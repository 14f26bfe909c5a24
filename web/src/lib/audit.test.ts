import { expect, it } from 'vitest';

import { auditText } from './audit';

it.each([
  ['PUT', '/api/v1/roles/{role}/members/{name}', 'role analysts', 'member ada', 'gave ada the role analysts'],
  ['DELETE', '/api/v1/roles/{role}/members/{name}', 'role analysts', 'member ada', 'took the role analysts from ada'],
  ['POST', '/api/v1/roles/{role}/grants', 'role analysts', 'read on lake.sales', 'granted analysts read on lake.sales'],
  ['POST', '/api/v1/catalogs/{catalog}/tables/{table}/rewrite', 'lake.db.t', '', 'ran rewrite'],
  ['DELETE', '/iceberg/v1/{catalog}/namespaces/{namespace}/tables/{table}', 'lake.db.t', '', 'dropped table'],
  ['GET', '/api/v1/catalogs/{catalog}/tables', 'lake', '', 'read tables'],
])('%s %s on %s is a sentence', (method, route, target, detail, text) => {
  expect(auditText({ method, route, target, detail })).toBe(text);
});
