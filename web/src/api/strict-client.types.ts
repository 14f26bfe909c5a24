/**
 * Tests of types: `npm run typecheck` fails where the line below a `@ts-expect-error` compiles. Nothing imports this
 * file and nothing is sent.
 */
import type { paths } from './generated';
import type { StrictClient } from './strict-client';
import type { StartJob } from './types';

declare const api: StrictClient<paths>;

const path = { catalog: 'lake', full_name: 'db.orders' };
const table = { catalog: 'lake', table: 'db.orders' };

export const requests = {
  fields: () => [
    api.POST('/catalogs/{catalog}/hive/{full_name}/downgrade', { params: { path }, body: { wait_for_writers: true } }),
    // @ts-expect-error A body field that the API has no longer.
    api.POST('/catalogs/{catalog}/hive/{full_name}/downgrade', { params: { path }, body: { watch: true } }),
    // @ts-expect-error The same beside one that it has.
    api.POST('/catalogs/{catalog}/hive/{full_name}/downgrade', { params: { path }, body: { wait_for_writers: true, watch: true } }),
    // @ts-expect-error A query parameter that it has not.
    api.GET('/jobs', { params: { query: { limit: 10, sort: 'kind' } } }),
    // @ts-expect-error A query where the operation has none.
    api.GET('/roles', { params: { query: { limit: 10 } } }),
    // @ts-expect-error A misspelt path parameter beside the right ones.
    api.GET('/catalogs/{catalog}/hive/{full_name}', { params: { path: { ...path, table: 'db.orders' } } }),
    // @ts-expect-error A body that the operation does not take.
    api.POST('/catalogs/{catalog}/hive/refresh', { params: { path: { catalog: 'lake' } }, body: { all: true } }),
    // @ts-expect-error Options that openapi-fetch does not know.
    api.GET('/roles', { query: { limit: 10 } }),
    // @ts-expect-error A missing path parameter.
    api.GET('/roles/{role}'),
    // @ts-expect-error A wrong type.
    api.GET('/jobs', { params: { query: { limit: 'ten' } } }),
  ],
  objectsMadeElsewhere: (spread: { search: string; sort: string }, whole: { body: { watch: boolean }; params: { path: typeof path } }) => [
    // @ts-expect-error A key that comes with a spread.
    api.GET('/jobs', { params: { query: { ...spread, limit: 10 } } }),
    // @ts-expect-error A key of a variable.
    api.POST('/catalogs/{catalog}/hive/{full_name}/downgrade', whole),
  ],
  nested: () => [
    api.POST('/catalogs/{catalog}/tables', {
      params: { path: { catalog: 'lake' } },
      body: { name: 'db.orders', columns: [{ name: 'id', type: 'long' }], primary_key: ['id'] },
    }),
    api.POST('/catalogs/{catalog}/tables', {
      params: { path: { catalog: 'lake' } },
      // @ts-expect-error A key of an item of a list.
      body: { name: 'db.orders', columns: [{ name: 'id', type: 'long', doc: '' }], primary_key: ['id'] },
    }),
  ],
  answers: async () => {
    const { data } = await api.GET('/me');
    // @ts-expect-error A field of an answer that the API has not.
    const nickname: unknown = data?.nickname;
    return [data?.name, nickname];
  },
  unions: (kind: StartJob) => [
    api.POST('/catalogs/{catalog}/tables/{table}/jobs', { params: { path: table }, body: kind }),
    api.POST('/catalogs/{catalog}/tables/{table}/jobs', { params: { path: table }, body: { kind: 'merge' } }),
    // @ts-expect-error A parameter that no kind of job has.
    api.POST('/catalogs/{catalog}/tables/{table}/jobs', { params: { path: table }, body: { kind: 'merge', watch: true } }),
    // @ts-expect-error A parameter of another kind of job.
    api.POST('/catalogs/{catalog}/tables/{table}/jobs', { params: { path: table }, body: { kind: 'merge', confirm: true } }),
  ],
};
