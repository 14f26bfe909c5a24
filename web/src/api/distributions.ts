/** What the console asks for the distribution of a column: the server counts it by a query, which may take a while. */
import { queryOptions } from '@tanstack/react-query';

import { answered, api } from './client';
import { costly } from './queries';
import { isActive } from './sql-queries';

const WAIT_SECONDS = 2;

/** The query that counts a column of one state of a table. Asking again begins another one. */
export const begunDistribution = (catalog: string, table: string, column: string, state: string) =>
  queryOptions({
    ...costly,
    queryKey: ['table', catalog, table, 'distribution', column, state],
    queryFn: () =>
      answered(api.POST('/catalogs/{catalog}/tables/{table}/distributions', { params: { path: { catalog, table } }, body: { column, wait: 1 } })),
    staleTime: Infinity,
    refetchOnMount: false,
    refetchOnReconnect: false,
    refetchOnWindowFocus: false,
    retry: false,
  });

/** That query until it has ended, and then the distribution. */
export const distribution = (catalog: string, table: string, id: string | undefined) =>
  queryOptions({
    ...costly,
    queryKey: ['distribution', catalog, table, id],
    queryFn: () =>
      answered(
        api.GET('/catalogs/{catalog}/tables/{table}/distributions/{query_id}', {
          params: { path: { catalog, table, query_id: id ?? '' }, query: { wait: WAIT_SECONDS } },
        }),
      ),
    enabled: id !== undefined,
    refetchInterval: (query) => (query.state.data !== undefined && isActive(query.state.data.query) ? 100 : false),
    staleTime: Infinity,
    retry: false,
  });
