import { useCallback } from 'react';
import { useSearchParams } from 'react-router';

/** A filter kept in the address, so that a link is a view. An empty value leaves the address. */
export function useUrlState(): [(key: string) => string | undefined, (changes: Record<string, string | undefined>) => void] {
  const [params, setParams] = useSearchParams();
  const get = useCallback((key: string) => params.get(key) ?? undefined, [params]);
  const set = useCallback(
    (changes: Record<string, string | undefined>) => {
      // What was rendered last may be older than the address: of two filters set in a row one would be lost.
      const next = new URLSearchParams(window.location.search);
      for (const [key, value] of Object.entries(changes)) {
        if (value === undefined || value === '') next.delete(key);
        else next.set(key, value);
      }
      setParams(next, { replace: true });
    },
    [setParams],
  );
  return [get, set];
}
