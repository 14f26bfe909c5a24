/**
 * What pages ask for. Pages do not poll by themselves: the pulse asks one cheap question every few seconds, and when its
 * answer has changed, what is on the screen is asked for again. Only bars that move between commits poll on their own.
 */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';

import { answered, api } from './client';
import type { ImportState, Job, JobKind, JobStatus, Operation, TableKind, TableSort, Topic } from './types';
import { ACTIVE, LIVE } from './types';

const PULSE_MS = 3000;
export const BAR_MS = 1000;
export const SLOW_MS = 15_000;
export const PAGE = 100;

/** Read page by page, by the server's cursor. */
export const paged = {
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (page: { next_cursor?: string | null | undefined }) => page.next_cursor ?? undefined,
};

/** What the server reads a table's files for: the pulse, which changes with every commit anywhere, does not ask again. */
export const costly = { meta: { costly: true } };

export const keys = { pulse: ['pulse'] } as const;

/** How the server is; `health` is null for who may not see that. */
export const pulse = (seesServer: boolean) =>
  queryOptions({
    queryKey: [...keys.pulse, seesServer],
    queryFn: async () => {
      const health = seesServer ? answered(api.GET('/health')) : null;
      const [found, jobs] = await Promise.all([health, answered(api.GET('/jobs/counts'))]);
      return { health: found, counts: jobs.counts };
    },
    refetchInterval: PULSE_MS,
    refetchIntervalInBackground: true,
    retry: false,
  });

/** How one gets in; asked before anybody has said who they are. */
export const login = () => queryOptions({ queryKey: ['login'], queryFn: () => answered(api.GET('/login')), staleTime: Infinity });

export const me = () =>
  queryOptions({ queryKey: ['me'], queryFn: () => answered(api.GET('/me')), refetchInterval: SLOW_MS, refetchOnWindowFocus: true });

export const catalogs = () =>
  queryOptions({ queryKey: ['catalogs'], queryFn: () => answered(api.GET('/catalogs')), refetchInterval: SLOW_MS });

/** The HDFS clusters under all warehouses; the server itself asks them at most twice a minute. */
export const clusters = () =>
  queryOptions({ ...costly, queryKey: ['clusters'], queryFn: () => answered(api.GET('/hadoop')), refetchInterval: SLOW_MS });

export const namespaces = (catalog: string, parent?: string) =>
  queryOptions({
    queryKey: ['namespaces', catalog, parent],
    queryFn: () =>
      answered(api.GET('/catalogs/{catalog}/namespaces', { params: { path: { catalog }, query: { limit: 500, parent } } })),
  });

export const namespace = (catalog: string, name: string) =>
  queryOptions({
    queryKey: ['namespace', catalog, name],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/namespaces/{namespace}', { params: { path: { catalog, namespace: name } } })),
  });

export interface TableFilter {
  kind?: TableKind;
  namespace?: string;
  search?: string;
  sort?: TableSort;
  health_below?: number;
}

export const tables = (catalog: string, filter: TableFilter, limit = PAGE) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['tables', catalog, filter, limit],
    queryFn: ({ pageParam }) =>
      answered(
        api.GET('/catalogs/{catalog}/tables', {
          params: { path: { catalog }, query: { ...filter, limit, cursor: pageParam } },
        }),
      ),
  });

export const dropped = (catalog: string, limit = PAGE) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['dropped', catalog, limit],
    queryFn: ({ pageParam }) =>
      answered(api.GET('/catalogs/{catalog}/dropped', { params: { path: { catalog }, query: { limit, cursor: pageParam } } })),
    refetchInterval: (query) =>
      query.state.data?.pages.some((page) => page.items.some((item) => item.state === 'purging')) ? BAR_MS : SLOW_MS,
  });

const at = (catalog: string, table: string) => ({ params: { path: { catalog, table } } });

export const table = (catalog: string, name: string) =>
  queryOptions({
    queryKey: ['table', catalog, name],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}', at(catalog, name))),
    refetchInterval: (query) => (query.state.data?.active_job ? BAR_MS : SLOW_MS),
  });

/** Counted once for each state of the table; the server reads manifests for it. */
export const tableColumns = (catalog: string, name: string, since: string | null) =>
  queryOptions({
    ...costly,
    queryKey: ['table', catalog, name, 'columns', since],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/columns', { params: { path: { catalog, table: name } } })),
  });

export const snapshots = (catalog: string, name: string) =>
  queryOptions({
    queryKey: ['table', catalog, name, 'snapshots'],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/snapshots', at(catalog, name))),
  });

export const tableHistory = (catalog: string, name: string) =>
  queryOptions({
    queryKey: ['table', catalog, name, 'history'],
    queryFn: () =>
      answered(
        api.GET('/catalogs/{catalog}/tables/{table}/history', {
          params: { path: { catalog, table: name }, query: { limit: 200 } },
        }),
      ),
  });

/** What happened, page by page; of a table or a view. */
export const entries = (catalog: string, name: string, about: Topic | undefined) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['table', catalog, name, 'entries', about],
    queryFn: ({ pageParam }) =>
      answered(
        api.GET('/catalogs/{catalog}/tables/{table}/history', {
          params: { path: { catalog, table: name }, query: { limit: PAGE, cursor: pageParam, kind: about && [about] } },
        }),
      ),
    refetchInterval: SLOW_MS,
  });

export const refs = (catalog: string, name: string) =>
  queryOptions({
    queryKey: ['table', catalog, name, 'refs'],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/refs', at(catalog, name))),
    refetchInterval: SLOW_MS,
  });

export const comparison = (catalog: string, name: string, from: string, to: string) =>
  queryOptions({
    queryKey: ['table', catalog, name, 'compare', from, to],
    queryFn: () =>
      answered(
        api.GET('/catalogs/{catalog}/tables/{table}/compare', {
          params: { path: { catalog, table: name }, query: { from, to } },
        }),
      ),
    retry: false,
  });

export const view = (catalog: string, name: string) =>
  queryOptions({
    queryKey: ['view', catalog, name],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/views/{view}', { params: { path: { catalog, view: name } } })),
    refetchInterval: SLOW_MS,
    retry: false,
  });

export const tableFiles = (catalog: string, name: string, since: string | null) =>
  queryOptions({
    ...costly,
    queryKey: ['table', catalog, name, 'files', since],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/files', at(catalog, name))),
    placeholderData: keepPreviousData,
    staleTime: SLOW_MS,
  });

export const tablePolicy = (catalog: string, name: string) =>
  queryOptions({
    queryKey: ['table', catalog, name, 'policy'],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/policy', at(catalog, name))),
  });

export const tableHealth = (catalog: string, name: string, since: string | null) =>
  queryOptions({
    queryKey: ['table', catalog, name, 'health', since],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/health', at(catalog, name))),
    placeholderData: keepPreviousData,
    refetchInterval: SLOW_MS,
  });

export const tableBlockers = (catalog: string, name: string) =>
  queryOptions({
    queryKey: ['table', catalog, name, 'blockers'],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/tables/{table}/blockers', at(catalog, name))),
    refetchInterval: SLOW_MS,
  });

export const policy = (catalog: string, namespace: string | undefined) =>
  queryOptions({
    queryKey: ['policy', catalog, namespace],
    queryFn: () => answered(api.GET('/catalogs/{catalog}/policy', { params: { path: { catalog }, query: { namespace } } })),
  });

/** Of jobs that wait nothing moves: a full queue must not make every list ask each second. */
const moving = (jobs: readonly Job[]): boolean => jobs.some((job) => LIVE.includes(job.status));

/** All pages that are loaded are asked for again: many of them less often. */
const pace = (pages: readonly { items: readonly Job[] }[] = []): number =>
  pages.length === 1 && moving(pages[0]?.items ?? []) ? BAR_MS : SLOW_MS;

export const tableJobs = (catalog: string, name: string) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['table', catalog, name, 'jobs'],
    queryFn: ({ pageParam }) =>
      answered(
        api.GET('/catalogs/{catalog}/tables/{table}/jobs', {
          params: { path: { catalog, table: name }, query: { limit: 50, cursor: pageParam } },
        }),
      ),
    refetchInterval: ({ state }) => pace(state.data?.pages),
  });

export interface JobFilter {
  catalog?: string;
  status?: JobStatus[];
  kind?: JobKind[];
  group?: string;
  search?: string;
}

export const jobs = (filter: JobFilter, limit = PAGE) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['jobs', filter, limit],
    queryFn: ({ pageParam }) =>
      answered(api.GET('/jobs', { params: { query: { ...filter, limit, cursor: pageParam } } })),
    refetchInterval: ({ state }) => pace(state.data?.pages),
  });

export const job = (id: string) =>
  queryOptions({
    queryKey: ['job', id],
    queryFn: () => answered(api.GET('/jobs/{job_id}', { params: { path: { job_id: id } } })),
    refetchInterval: (query) => (query.state.data && ACTIVE.includes(query.state.data.status) ? BAR_MS : false),
  });

export const jobLog = (id: string, live: boolean) =>
  queryOptions({
    queryKey: ['job', id, 'log'],
    queryFn: () => answered(api.GET('/jobs/{job_id}/logs', { params: { path: { job_id: id } } })),
    refetchInterval: live ? BAR_MS * 2 : false,
  });

export const optimizers = (seesServer: boolean) =>
  queryOptions({
    queryKey: ['optimizers'],
    enabled: seesServer,
    queryFn: () => answered(api.GET('/optimizers')),
    refetchInterval: PULSE_MS,
  });

/** All background work at a glance: one question for the overview, for the groups and for why nothing runs. */
export const maintenanceStatus = (seesServer: boolean) =>
  queryOptions({
    queryKey: ['status'],
    enabled: seesServer,
    queryFn: () => answered(api.GET('/status')),
    refetchInterval: PULSE_MS,
  });

export const deletedBy = (id: string) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['job', id, 'deleted'],
    queryFn: ({ pageParam }) =>
      answered(api.GET('/jobs/{job_id}/deleted', { params: { path: { job_id: id }, query: { limit: 20, cursor: pageParam } } })),
  });

export const groups = (seesServer: boolean) =>
  queryOptions({
    queryKey: ['groups'],
    enabled: seesServer,
    queryFn: () => answered(api.GET('/groups')),
    refetchInterval: SLOW_MS,
  });

/** How a group's optimizers are started; refused for a group that only an optimizer names. */
export const launch = (group: string) =>
  queryOptions({
    queryKey: ['groups', group, 'launch'],
    queryFn: () => answered(api.GET('/groups/{group}/launch', { params: { path: { group } } })),
    refetchInterval: SLOW_MS,
    retry: false,
  });

export const events = (catalog: string, limit: number) =>
  queryOptions({
    queryKey: ['events', catalog, limit],
    queryFn: () => answered(api.GET('/events', { params: { query: { catalog, limit } } })),
  });

const works = (operation: Operation): boolean => operation.status === 'running';

export const operations = (catalog: string) =>
  queryOptions({
    queryKey: ['operations', catalog],
    queryFn: () => answered(api.GET('/operations', { params: { query: { catalog, limit: PAGE } } })),
    refetchInterval: (query) => (query.state.data?.items.some(works) ? BAR_MS : SLOW_MS),
  });

/** The last upgrade of a table, however it ended; null without one. */
export const lastUpgrade = (catalog: string, target: string) =>
  queryOptions({
    queryKey: ['operations', catalog, target],
    queryFn: async () => {
      const { items } = await answered(api.GET('/operations', { params: { query: { catalog, target, limit: 20 } } }));
      return items.find((item) => item.kind === 'upgrade') ?? null;
    },
  });

export const operation = (id: string) =>
  queryOptions({
    queryKey: ['operation', id],
    queryFn: () => answered(api.GET('/operations/{operation_id}', { params: { path: { operation_id: id } } })),
    refetchInterval: (query) => (query.state.data && !works(query.state.data) ? false : BAR_MS / 2),
  });

export const importEntries = (catalog: string, id: string, states: ImportState[], live: boolean) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['import', catalog, id, states, live], // asked once more when it has ended: the last look may be older
    queryFn: ({ pageParam }) =>
      answered(
        api.GET('/catalogs/{catalog}/imports/{operation_id}/entries', {
          params: { path: { catalog, operation_id: id }, query: { state: states, limit: PAGE, cursor: pageParam } },
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: live ? BAR_MS : false,
  });
