import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import { useParams } from 'react-router';

import { catalogs } from '../api/queries';

const KEY = 'firn.catalog';

/** The catalog of the page, or on pages of the whole server the last one looked at. */
export function useCatalog(): { name: string } {
  const { catalog } = useParams();
  const { data } = useQuery(catalogs());
  useEffect(() => {
    if (catalog !== undefined) localStorage.setItem(KEY, catalog);
  }, [catalog]);
  if (catalog !== undefined) return { name: catalog };
  const last = localStorage.getItem(KEY);
  const known = data?.map((item) => item.name) ?? [];
  return { name: last !== null && (data === undefined || known.includes(last)) ? last : (known[0] ?? 'lake') };
}
