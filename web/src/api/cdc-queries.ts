/** What the wizard of change data capture asks. The server asks Kafka for all of it. */
import { queryOptions } from '@tanstack/react-query';

import { answered, api } from './client';
import { costly } from './queries';
import type { CdcPlanRequest } from './types';

export const topics = (connection: string | null, search: string) =>
  queryOptions({
    ...costly,
    queryKey: ['cdc', 'topics', connection, search],
    enabled: connection !== null,
    queryFn: () => answered(api.GET('/connections/{connection}/topics', { params: { path: { connection: connection ?? '' }, query: { search } } })),
    retry: false,
  });

export const sample = (connection: string | null, topic: string | null, format: string | null) =>
  queryOptions({
    ...costly,
    queryKey: ['cdc', 'sample', connection, topic, format],
    enabled: connection !== null && topic !== null,
    queryFn: () =>
      answered(
        api.GET('/connections/{connection}/topics/{topic}/sample', {
          params: { path: { connection: connection ?? '', topic: topic ?? '' }, query: format === null ? {} : { format } },
        }),
      ),
    retry: false,
  });

export const cdcPlan = (catalog: string, request: CdcPlanRequest | undefined) =>
  queryOptions({
    ...costly,
    queryKey: ['cdc', 'plan', catalog, request],
    enabled: request !== undefined,
    queryFn: () => {
      if (request === undefined) throw new Error('nothing to plan');
      return answered(api.POST('/catalogs/{catalog}/cdc/plan', { params: { path: { catalog } }, body: request }));
    },
    retry: false,
  });
