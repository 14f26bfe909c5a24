/** What the SQL page and previews ask for. */
import { infiniteQueryOptions, queryOptions, type QueryClient } from '@tanstack/react-query';

import { answered, api } from './client';
import { problemOf, UNREACHABLE } from './problem';
import { costly } from './queries';
import { bearer } from './session';
import type { SqlQuery } from './types';

const WAIT_SECONDS = 2;

export const isActive = (query: Pick<SqlQuery, 'state'>): boolean => query.state === 'queued' || query.state === 'running';

export const preview = (catalog: string, table: string, snapshot: string | undefined) =>
  queryOptions({
    ...costly,
    queryKey: ['table', catalog, table, 'preview', snapshot],
    queryFn: () =>
      answered(api.GET('/catalogs/{catalog}/tables/{table}/preview', { params: { path: { catalog, table }, query: { snapshot } } })),
    staleTime: 30_000,
    retry: false,
  });

export const sqlSettings = () =>
  queryOptions({ ...costly, queryKey: ['sql', 'settings'], queryFn: () => answered(api.GET('/queries/settings')), staleTime: 15_000, refetchInterval: 30_000 });

/** One query, asked for again until it has ended; the server answers when it ends, or after a while. */
export const sqlQuery = (id: string | undefined) =>
  queryOptions({
    ...costly,
    queryKey: ['sql', 'query', id],
    queryFn: () => answered(api.GET('/queries/{query_id}', { params: { path: { query_id: id ?? '' }, query: { wait: WAIT_SECONDS } } })),
    enabled: id !== undefined,
    refetchInterval: (query) => (query.state.data !== undefined && isActive(query.state.data) ? 100 : false),
    staleTime: Infinity,
    retry: false,
  });

export const sqlRows = (id: string) =>
  infiniteQueryOptions({
    ...costly,
    queryKey: ['sql', 'rows', id],
    initialPageParam: 0,
    queryFn: ({ pageParam }) =>
      answered(api.GET('/queries/{query_id}/rows', { params: { path: { query_id: id }, query: { page: pageParam } } })),
    getNextPageParam: (page) => page.next_page ?? undefined,
    staleTime: Infinity,
    retry: false,
  });

export const sqlHistory = () =>
  queryOptions({ ...costly, queryKey: ['sql', 'history'], queryFn: () => answered(api.GET('/queries', { params: { query: { limit: 50 } } })) });

export const savedQueries = () =>
  queryOptions({ ...costly, queryKey: ['sql', 'saved'], queryFn: () => answered(api.GET('/saved-queries')) });

export type Engine = SqlQuery['engine'];

export interface Run {
  statement: string;
  engine: Engine;
  catalog: string;
  namespace: string;
  limit: number;
  explain: boolean;
}

/** Begins a query, and lets the page know it. */
export async function runQuery(queries: QueryClient, run: Run): Promise<SqlQuery> {
  const begun = await answered(api.POST('/queries', { body: { ...run, wait: 1 } }));
  queries.setQueryData(sqlQuery(begun.id).queryKey, begun);
  void queries.invalidateQueries({ queryKey: ['sql', 'history'] });
  return begun;
}

export const cancelQuery = (id: string) => answered(api.DELETE('/queries/{query_id}', { params: { path: { query_id: id } } }));

/** Saves a result on this machine. Not a link: the request carries the token of this tab. */
export async function download(id: string, format: 'csv' | 'parquet'): Promise<void> {
  const token = await bearer();
  const answer = await fetch(`/api/v1/queries/${id}/${format}`, { headers: token === null ? {} : { Authorization: `Bearer ${token}` } }).catch(() => {
    throw UNREACHABLE;
  });
  if (!answer.ok) throw problemOf(await answer.json().catch(() => null), answer.status);
  const address = URL.createObjectURL(await answer.blob());
  const link = document.createElement('a');
  link.href = address;
  link.download = `result.${format}`;
  link.click();
  URL.revokeObjectURL(address);
}
