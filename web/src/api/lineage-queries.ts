/** What the tab of lineage asks for. */
import { keepPreviousData, queryOptions } from '@tanstack/react-query';

import { answered, api } from './client';
import { costly } from './queries';
import type { Direction } from './types';

const LINEAGE_MS = 30_000;

export const tableLineage = (catalog: string, table: string, { direction, depth, column }: { direction: Direction; depth: number; column: string | undefined }) =>
  queryOptions({
    ...costly,
    queryKey: ['lineage', catalog, table, direction, depth, column],
    queryFn: () =>
      answered(
        api.GET('/catalogs/{catalog}/tables/{table}/lineage', {
          params: { path: { catalog, table }, query: { direction, depth, ...(column === undefined ? {} : { column }) } },
        }),
      ),
    refetchInterval: LINEAGE_MS,
    placeholderData: keepPreviousData,
  });
