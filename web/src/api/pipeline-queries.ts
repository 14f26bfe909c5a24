/** What pages ask about pipelines, their runs and their versions. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';

import { answered, api } from './client';
import { PAGE, paged } from './queries';
import type { BackfillRequest } from './types';

const RUNS_MS = 3000;
const PLANS_MS = 10_000;

export const pipelines = () =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['pipelines'],
    queryFn: ({ pageParam }) => answered(api.GET('/pipelines', { params: { query: { limit: PAGE, cursor: pageParam } } })),
    refetchInterval: RUNS_MS,
  });

export const pipeline = (name: string) =>
  queryOptions({
    queryKey: ['pipelines', name],
    queryFn: () => answered(api.GET('/pipelines/{pipeline}', { params: { path: { pipeline: name } } })),
    refetchInterval: RUNS_MS,
  });

export const pipelineGraph = (name: string) =>
  queryOptions({
    queryKey: ['pipelines', name, 'graph'],
    queryFn: () => answered(api.GET('/pipelines/{pipeline}/graph', { params: { path: { pipeline: name } } })),
    refetchInterval: RUNS_MS,
  });

/** What the next run of a table does. The server reads metadata for it, so it is asked less often. */
export const pipelinePlan = (name: string, table: string) =>
  queryOptions({
    queryKey: ['pipelines', name, 'plan', table],
    queryFn: () => answered(api.GET('/pipelines/{pipeline}/plan', { params: { path: { pipeline: name }, query: { table } } })),
    refetchInterval: PLANS_MS,
  });

/** The lineage of a version never changes. */
export const pipelineLineage = (name: string, version: number) =>
  queryOptions({
    queryKey: ['pipelines', name, 'lineage', version],
    queryFn: () => answered(api.GET('/pipelines/{pipeline}/lineage', { params: { path: { pipeline: name } } })),
  });

export const pipelineVersion = (name: string, version: number) =>
  queryOptions({
    queryKey: ['pipelines', name, 'version', version],
    queryFn: () => answered(api.GET('/pipelines/{pipeline}/versions/{version}', { params: { path: { pipeline: name, version } } })),
  });

export const pipelineRuns = (name: string, table: string | undefined) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['pipelines', name, 'runs', table],
    queryFn: ({ pageParam }) =>
      answered(
        api.GET('/pipelines/{pipeline}/runs', {
          params: { path: { pipeline: name }, query: { limit: PAGE, cursor: pageParam, ...(table === undefined ? {} : { table }) } },
        }),
      ),
    refetchInterval: RUNS_MS,
  });

export const pipelineRun = (name: string, id: string) =>
  queryOptions({
    queryKey: ['pipelines', name, 'run', id],
    queryFn: () => answered(api.GET('/pipelines/{pipeline}/runs/{job_id}', { params: { path: { pipeline: name, job_id: id } } })),
    refetchInterval: RUNS_MS,
  });

export const pipelineVersions = (name: string) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['pipelines', name, 'versions'],
    queryFn: ({ pageParam }) =>
      answered(api.GET('/pipelines/{pipeline}/versions', { params: { path: { pipeline: name }, query: { limit: PAGE, cursor: pageParam } } })),
  });

/** The newest backfills of a table; older ones are told by the command line. */
export const backfills = (name: string, table: string) =>
  queryOptions({
    queryKey: ['pipelines', name, 'backfills', table],
    queryFn: () => answered(api.GET('/pipelines/{pipeline}/tables/{table}/backfills', { params: { path: { pipeline: name, table }, query: { limit: 5 } } })),
    refetchInterval: RUNS_MS,
  });

/** With `dry_run` the answer has the chunks, and nothing is stored. */
export const requestBackfill = (name: string, table: string, body: BackfillRequest) =>
  answered(api.POST('/pipelines/{pipeline}/tables/{table}/backfills', { params: { path: { pipeline: name, table } }, body }));

export type BackfillAction = 'pause' | 'resume' | 'cancel';

export const changeBackfill = (name: string, table: string, id: string, action: BackfillAction) =>
  answered(api.POST(`/pipelines/{pipeline}/tables/{table}/backfills/{backfill_id}/${action}`, { params: { path: { pipeline: name, table, backfill_id: id } } }));

/** Some rows of a run that waits, which never change; its id tells the next one apart. */
export const heldRows = (name: string, table: string, run: string) =>
  queryOptions({
    queryKey: ['pipelines', name, 'held', table, run],
    queryFn: () => answered(api.GET('/pipelines/{pipeline}/tables/{table}/held', { params: { path: { pipeline: name, table } } })),
    staleTime: Infinity,
  });

export const publishHeld = (name: string, table: string) =>
  answered(api.POST('/pipelines/{pipeline}/tables/{table}/publish', { params: { path: { pipeline: name, table } } }));

export const discardHeld = (name: string, table: string) =>
  answered(api.POST('/pipelines/{pipeline}/tables/{table}/discard', { params: { path: { pipeline: name, table } } }));

export const runTable = (name: string, table: string, full: boolean) =>
  answered(api.POST('/pipelines/{pipeline}/runs', { params: { path: { pipeline: name } }, body: { table, full } }));

export const resetTable = (name: string, table: string) =>
  answered(api.POST('/pipelines/{pipeline}/tables/{table}/reset', { params: { path: { pipeline: name, table } } }));
