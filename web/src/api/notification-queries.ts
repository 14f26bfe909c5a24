/** What pages ask about rules of notifications and their messages. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';

import { answered, api } from './client';
import { PAGE, paged } from './queries';
import type { NotificationState } from './types';

const REFRESH_MS = 10_000;

export const notificationRules = (maySee: boolean) =>
  queryOptions({
    queryKey: ['notifications', 'rules'],
    enabled: maySee,
    queryFn: () => answered(api.GET('/notifications/rules')),
    refetchInterval: REFRESH_MS,
  });

export const notificationHistory = (filter: { rule?: string; state?: NotificationState[] }, maySee: boolean) =>
  infiniteQueryOptions({
    ...paged,
    queryKey: ['notifications', 'history', filter],
    enabled: maySee,
    queryFn: ({ pageParam }) =>
      answered(
        api.GET('/notifications', {
          params: { query: { ...filter, limit: PAGE, ...(pageParam === undefined ? {} : { cursor: pageParam }) } },
        }),
      ),
    refetchInterval: REFRESH_MS,
  });
