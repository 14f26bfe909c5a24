/** What pages ask for about Hive tables; how often, see `queries`. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';

import { answered, api } from './client';
import { BAR_MS, costly, PAGE, paged, SLOW_MS } from './queries';
import type { HiveOrder, HiveState } from './types';

export interface HiveFilter {
  database?: string;
  search?: string;
  state?: HiveState;
  out_of_sync?: boolean;
  format?: string;
  blocker?: string;
  writer?: string;
  partitioned?: boolean;
  checked?: boolean;
  failed?: boolean;
  min_bytes?: number;
  max_bytes?: number;
  min_rows?: number;
  max_rows?: number;
  min_partitions?: number;
  max_partitions?: number;
  written_since?: string;
  written_before?: string;
}

export const hiveTables = (catalog: string, filter: HiveFilter, sort: HiveOrder = 'name', limit = PAGE) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['hive', catalog, filter, sort, limit],
    queryFn: ({ pageParam }) =>
      answered(
        api.GET('/catalogs/{catalog}/hive', {
          params: { path: { catalog }, query: { ...filter, sort, limit, cursor: pageParam } },
        }),
      ),
    refetchInterval: SLOW_MS,
  });

export const hiveDatabases = (catalog: string) =>
  queryOptions({
    queryKey: ['hive', catalog, 'databases'],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/hive/databases', { params: { path: { catalog } } })),
  });

export const hiveTable = (catalog: string, name: string) =>
  queryOptions({
    queryKey: ['hive', catalog, name, 'row'],
    queryFn: () =>
      answered(api.GET('/catalogs/{catalog}/hive/{full_name}', { params: { path: { catalog, full_name: name } } })),
    refetchInterval: ({ state: { data } }) => (data?.publish_request && !['done', 'failed'].includes(data.publish_request.step) ? BAR_MS : false),
  });

export const downgradePreview = (catalog: string, name: string) =>
  queryOptions({
    ...costly,
    queryKey: ['hive', catalog, name, 'left to do'],
    queryFn: () =>
      answered(api.GET('/catalogs/{catalog}/hive/{full_name}/downgrade', { params: { path: { catalog, full_name: name } } })),
  });

/** How many partitions Hive has not as they are here; reads all manifests of the table. */
export const publishPreview = (catalog: string, name: string, published: string | null) =>
  queryOptions({
    ...costly,
    queryKey: ['hive', catalog, name, 'behind', published],
    queryFn: () =>
      answered(api.GET('/catalogs/{catalog}/hive/{full_name}/publish', { params: { path: { catalog, full_name: name } } })),
    placeholderData: keepPreviousData,
    refetchInterval: SLOW_MS,
    // A metastore that is away is said at once.
    retry: false,
  });

/** What a publish would do. The server tries permissions on an empty directory, so this is asked once for each dialog. */
export const publishPermissions = (catalog: string, name: string) =>
  queryOptions({
    ...costly,
    queryKey: ['hive', catalog, name, 'publish-permissions'],
    queryFn: () =>
      answered(
        api.GET('/catalogs/{catalog}/hive/{full_name}/publish', { params: { path: { catalog, full_name: name }, query: { permissions: true } } }),
      ),
    retry: false,
    staleTime: Infinity,
    gcTime: 0,
  });

/** What publishes have left behind. */
export const supersededDirectories = (catalog: string, name: string) =>
  queryOptions({
    ...costly,
    queryKey: ['hive', catalog, name, 'former'],
    queryFn: () =>
      answered(api.GET('/catalogs/{catalog}/hive/{full_name}/superseded-directories', { params: { path: { catalog, full_name: name } } })),
    refetchInterval: SLOW_MS,
  });

export const hiveEvents = (catalog: string, name: string, partition?: string) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['hive', catalog, name, 'history', partition],
    queryFn: ({ pageParam }) =>
      answered(
        api.GET('/catalogs/{catalog}/hive/{full_name}/history', {
          params: { path: { catalog, full_name: name }, query: { limit: PAGE, cursor: pageParam, partition } },
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: SLOW_MS,
  });

/** How many of the tables that match are upgraded, and what blocks the others. */
export const migration = (catalog: string, filter: HiveFilter) =>
  queryOptions({
    queryKey: ['hive', catalog, 'migration', filter],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/hive/migration', { params: { path: { catalog }, query: filter } })),
    placeholderData: keepPreviousData,
    refetchInterval: SLOW_MS,
  });

/** The views of the metastore, with their queries in Spark SQL. */
export const hiveViews = (catalog: string) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['hive', catalog, 'views'],
    queryFn: ({ pageParam }) =>
      answered(api.GET('/catalogs/{catalog}/hive/views', { params: { path: { catalog }, query: { limit: PAGE, cursor: pageParam } } })),
  });

export const waves = (catalog: string) =>
  queryOptions({
    queryKey: ['hive', catalog, 'waves'],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/hive/waves', { params: { path: { catalog }, query: { limit: 20 } } })),
    refetchInterval: ({ state: { data } }) => (data?.items.some((wave) => wave.unfinished > 0) ? BAR_MS : SLOW_MS),
  });

/** Many upgrades that were asked for at once, in numbers. */
export const batch = (catalog: string, id: string) =>
  queryOptions({
    queryKey: ['batch', catalog, id],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/hive/upgrades/{batch}', { params: { path: { catalog, batch: id } } })),
    refetchInterval: (query) => (query.state.data?.unfinished === 0 ? false : BAR_MS),
  });

export const batchOperations = (id: string, live: boolean) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['operations', 'batch', id, live], // asked once more when all has ended: the last look may be older
    queryFn: ({ pageParam }) => answered(api.GET('/operations', { params: { query: { batch: id, limit: PAGE, cursor: pageParam } } })),
    placeholderData: keepPreviousData,
    refetchInterval: live ? BAR_MS : false,
  });

export const hiveReport = (catalog: string, name: string, primaryKey: string[], properties: Record<string, string>) =>
  queryOptions({
    ...costly,
    queryKey: ['hive', catalog, name, 'check', primaryKey, properties],
    queryFn: () =>
      answered(
        api.POST('/catalogs/{catalog}/hive/{full_name}/check', {
          params: { path: { catalog, full_name: name } },
          body: { primary_key: primaryKey, properties },
        }),
      ),
    // Reads footers: asked for again only when somebody asks for it.
    staleTime: Infinity,
    retry: false,
  });
