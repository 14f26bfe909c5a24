/** What pages ask about logs, writers, consumers and changes of rows. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';

import { answered, api } from './client';
import { asProblem } from './problem';
import type { ChangedRows, StreamStatus } from './types';
import { costly, PAGE, paged, SLOW_MS } from './queries';

export const FOLLOW_MS = 2000;
const STREAMS_MS = 5000;
export const MOST_CHANGES = 100;

const at = (catalog: string, table: string) => ({ params: { path: { catalog, table } } });

/** The server asks Kafka for it: a commit somewhere is no reason to ask again. */
export const tableLog = (catalog: string, name: string) =>
  queryOptions({
    ...costly,
    queryKey: ['table', catalog, name, 'log'],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/log', at(catalog, name))),
    refetchInterval: SLOW_MS,
    retry: false,
  });

/** Jobs of Flink that seem to insert a changelog where deleted rows come back. */
export const suspectedChangelogs = (catalog: string, name: string) =>
  queryOptions({
    queryKey: ['table', catalog, name, 'suspected-changelogs'],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/log/suspected-changelogs', at(catalog, name))),
    retry: false,
  });

/** What a skip would give up; it changes nothing. */
export const plannedSkip = (catalog: string, name: string) =>
  queryOptions({
    ...costly,
    queryKey: ['table', catalog, name, 'skip'],
    queryFn: () =>
      answered(
        api.POST('/catalogs/{catalog}/tables/{table}/log/skip', {
          params: { path: { catalog, table: name }, query: { dry_run: true } },
        }),
      ),
    retry: false,
    gcTime: 0,
  });

/** What a reset to a target would do; it changes nothing. */
export const plannedReset = (catalog: string, name: string, target: string | null) =>
  queryOptions({
    ...costly,
    queryKey: ['table', catalog, name, 'reset', target],
    enabled: target !== null,
    queryFn: () =>
      answered(
        api.POST('/catalogs/{catalog}/tables/{table}/log/reset', {
          params: { path: { catalog, table: name }, query: { dry_run: true } },
          body: { to: target ?? '' },
        }),
      ),
    retry: false,
    gcTime: 0,
  });

export const tableQuarantine = (catalog: string, name: string) =>
  queryOptions({
    queryKey: ['table', catalog, name, 'quarantine'],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/log/quarantine', at(catalog, name))),
    refetchInterval: SLOW_MS,
  });

/** The server reads files for it: only another snapshot is a reason to ask again. */
export const badRecords = (catalog: string, name: string, snapshot: string | null) =>
  queryOptions({
    ...costly,
    queryKey: ['table', catalog, name, 'quarantine', 'records', snapshot],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/log/quarantine/records', at(catalog, name))),
    retry: false,
  });

export const badRecord = (catalog: string, name: string, partition: number, offset: number) =>
  queryOptions({
    ...costly,
    queryKey: ['table', catalog, name, 'quarantine', 'records', partition, offset],
    queryFn: () =>
      answered(
        api.GET('/catalogs/{catalog}/tables/{table}/log/quarantine/records/{partition}/{offset}', {
          params: { path: { catalog, table: name, partition, offset } },
        }),
      ),
    retry: false,
    gcTime: 0,
  });

export const writers = (catalog: string, name: string) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['table', catalog, name, 'writers'],
    queryFn: ({ pageParam }) =>
      answered(
        api.GET('/catalogs/{catalog}/tables/{table}/writers', {
          params: { path: { catalog, table: name }, query: { limit: PAGE, cursor: pageParam } },
        }),
      ),
    refetchInterval: SLOW_MS,
  });

export const consumers = (catalog: string, name: string) =>
  queryOptions({
    queryKey: ['table', catalog, name, 'consumers'],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/consumers', at(catalog, name))),
    refetchInterval: SLOW_MS,
  });

/** The newest hundred pairs of snapshots. */
export const versions = (catalog: string, name: string) =>
  queryOptions({
    queryKey: ['table', catalog, name, 'versions'],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/versions', at(catalog, name))),
  });

/**
 * Net changes from one version to another, or, without an end, to the newest one. A next page has what changed since: so
 * the table's files are read once for each change, however long somebody follows them.
 */
export const changedRows = (catalog: string, name: string, since: string, until: string | undefined) =>
  infiniteQueryOptions({
    ...costly,
    queryKey: ['table', catalog, name, 'changes', since, until],
    initialPageParam: since,
    getNextPageParam: (page: ChangedRows) => String(page.until),
    queryFn: ({ pageParam }) =>
      answered(
        api.GET('/catalogs/{catalog}/tables/{table}/changes', {
          params: { path: { catalog, table: name }, query: { since: pageParam, until, limit: MOST_CHANGES } },
        }),
      ),
    staleTime: Infinity,
    refetchOnWindowFocus: false,
    retry: (failures, error) => failures < 3 && asProblem(error).passes,
  });

export interface StreamFilter {
  catalog?: string;
  table?: string;
  status?: StreamStatus[];
  search?: string;
}

/** Lags change without a commit, so these are asked for again and again. */
export const streams = (filter: StreamFilter) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['streams', filter],
    queryFn: ({ pageParam }) => answered(api.GET('/streams', { params: { query: { ...filter, limit: PAGE, cursor: pageParam } } })),
    refetchInterval: STREAMS_MS,
  });

export const stream = (id: string) =>
  queryOptions({
    queryKey: ['streams', 'one', id],
    queryFn: () => answered(api.GET('/streams/{stream_id}', { params: { path: { stream_id: id } } })),
    refetchInterval: STREAMS_MS,
  });

export const streamLog = (id: string) =>
  queryOptions({
    queryKey: ['streams', 'log', id],
    queryFn: () => answered(api.GET('/streams/{stream_id}/logs', { params: { path: { stream_id: id } } })),
    refetchInterval: STREAMS_MS,
  });

/** Has the server sign in to cluster and schema registry, and count what it sees. */
export const connectionCheck = (name: string | null) =>
  queryOptions({
    ...costly,
    queryKey: ['connections', name, 'check'],
    enabled: name !== null,
    retry: false,
    queryFn: () => answered(api.POST('/connections/{connection}/check', { params: { path: { connection: name ?? '' } } })),
  });

export const connections = (maySee: boolean) =>
  queryOptions({
    queryKey: ['connections'],
    enabled: maySee,
    queryFn: () => answered(api.GET('/connections')),
    refetchInterval: SLOW_MS,
  });
