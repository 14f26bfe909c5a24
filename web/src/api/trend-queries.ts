/** What the pages of trends and Home ask for. The server samples once a minute, so the pulse does not ask again. */
import { keepPreviousData, queryOptions } from '@tanstack/react-query';

import { answered, api } from './client';
import { costly, SLOW_MS } from './queries';

const SAMPLED_MS = 60_000;

export const tableTrends = (catalog: string, table: string, since: string) =>
  queryOptions({
    ...costly,
    queryKey: ['trends', catalog, table, since],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/trends', { params: { path: { catalog, table }, query: { since } } })),
    refetchInterval: SAMPLED_MS,
    placeholderData: keepPreviousData,
  });

export const scopeTrends = (catalog: string, namespace: string | undefined, since: string) =>
  queryOptions({
    ...costly,
    queryKey: ['trends', catalog, '', namespace, since],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/trends', { params: { path: { catalog }, query: { since, ...(namespace === undefined ? {} : { namespace }) } } })),
    refetchInterval: SAMPLED_MS,
    placeholderData: keepPreviousData,
  });

/** A catalog at a glance. Commits change it each second on a busy catalog, so it is asked for on its own clock. */
export const summary = (catalog: string) =>
  queryOptions({
    ...costly,
    queryKey: ['summary', catalog],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/summary', { params: { path: { catalog } } })),
    refetchInterval: SLOW_MS,
    placeholderData: keepPreviousData,
  });
