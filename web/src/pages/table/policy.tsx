import { useQuery } from '@tanstack/react-query';

import { answered, api } from '../../api/client';
import { tablePolicy } from '../../api/queries';
import type { Table } from '../../api/types';
import { need, onTable } from '../../lib/access';
import { fullName } from '../../lib/paths';
import { PolicyEditor, type Place } from '../policy/editor';

/** Each value with where it comes from; changing one sets it on this table. */
export function PolicyTab({ table }: { table: Table }) {
  const { data, error } = useQuery(tablePolicy(table.catalog, fullName(table)));
  const place: Place = {
    catalog: table.catalog,
    source: 'table',
    called: 'this table',
    needs: () => need(onTable(table.catalog, fullName(table)), 'write'),
    save: (key, value) =>
      answered(
        api.PATCH('/catalogs/{catalog}/tables/{table}/properties', {
          params: { path: { catalog: table.catalog, table: fullName(table) } },
          body: value === null ? { remove: [key] } : { set: { [key]: value } },
        }),
      ),
  };
  return <PolicyEditor place={place} settings={data} error={error} />;
}
