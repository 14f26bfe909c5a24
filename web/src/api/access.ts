/** What the pages about people, roles and tokens ask for. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';

import { answered, api } from './client';
import { paged, PAGE } from './queries';
import type { TokenKind, Verdict } from './types';

export const principals = (kind: 'users' | 'services', enabled: boolean) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['principals', kind],
    queryFn: ({ pageParam }) => answered(api.GET(`/${kind}`, { params: { query: { limit: PAGE, cursor: pageParam } } })),
    enabled,
  });

export const tokens = (owner: string | undefined, kind: TokenKind | undefined) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['tokens', owner, kind],
    queryFn: ({ pageParam }) => answered(api.GET('/tokens', { params: { query: { owner, kind, limit: PAGE, cursor: pageParam } } })),
    retry: false,
  });

export const roles = () => queryOptions({ queryKey: ['roles'], queryFn: () => answered(api.GET('/roles')) });

export const role = (name: string) =>
  queryOptions({
    queryKey: ['roles', name],
    queryFn: () => answered(api.GET('/roles/{role}', { params: { path: { role: name } } })),
    retry: false,
  });

export interface AuditFilter {
  principal?: string;
  target?: string;
  verdict?: Verdict;
  changes?: boolean;
  notable?: boolean;
}

/** What was asked in the last so many seconds, so that a link stays a view. */
export const audit = (filter: AuditFilter, seconds: number | undefined, enabled: boolean) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['audit', filter, seconds],
    queryFn: ({ pageParam }) => {
      const since = seconds === undefined ? undefined : new Date(Date.now() - seconds * 1000).toISOString();
      return answered(api.GET('/audit', { params: { query: { ...filter, since, limit: PAGE, cursor: pageParam } } }));
    },
    enabled,
  });
