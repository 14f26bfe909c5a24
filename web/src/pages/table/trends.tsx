import { useQuery } from '@tanstack/react-query';

import { tableTrends } from '../../api/trend-queries';
import type { Table } from '../../api/types';
import { Trends, useRange } from '../../components/trends';
import { fullName } from '../../lib/paths';

/** How a table has changed: rows, size, files, health, jobs. */
export function TrendsTab({ table }: { table: Table }) {
  const [range, setRange] = useRange();
  const { data, error } = useQuery(tableTrends(table.catalog, fullName(table), range));
  return (
    <div style={{ padding: 14 }}>
      <Trends trend={data} error={error} isTable range={range} setRange={setRange} />
    </div>
  );
}
