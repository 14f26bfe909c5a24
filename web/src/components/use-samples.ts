import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';

import type { Stream } from '../api/types';
import { addSample, type Sample } from '../lib/rates';

const NONE: readonly Sample[] = [];

/** The measures of a stream that pages have seen. They stay when somebody looks at another page for some minutes. */
export function useSamples(stream: Stream): readonly Sample[] {
  const queries = useQueryClient();
  const key = ['streams', 'samples', stream.id];
  const { data } = useQuery<readonly Sample[]>({ queryKey: key, queryFn: () => NONE, enabled: false, initialData: NONE });
  const { measured_at, rows_per_second } = stream;
  useEffect(() => {
    queries.setQueryData<readonly Sample[]>(['streams', 'samples', stream.id], (samples = NONE) => addSample(samples, { measured_at, rows_per_second }));
  }, [queries, stream.id, measured_at, rows_per_second]);
  return data;
}
