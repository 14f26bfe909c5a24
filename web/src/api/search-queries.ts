/** What the search asks for. */
import { queryOptions } from '@tanstack/react-query';

import { answered, api } from './client';
import type { SearchHit } from './types';

/** The longest text that the server takes. */
const LONGEST = 500;

export interface Found {
  /** The text that these are hits for. */
  text: string;
  hits: SearchHit[];
}

export const search = (text: string) =>
  queryOptions({
    queryKey: ['search', text],
    queryFn: async (): Promise<Found> => {
      const { hits } = await answered(api.GET('/search', { params: { query: { q: text.slice(0, LONGEST), limit: 8 } } }));
      return { text, hits };
    },
    staleTime: 10_000,
    retry: false,
  });
