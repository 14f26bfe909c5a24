import { useQuery } from '@tanstack/react-query';

import { sqlSettings } from '../api/sql-queries';
import { Note } from './notes';

/** Says that the server reads no rows for people. */
export function RowsOff() {
  const { data } = useQuery(sqlSettings());
  if (data === undefined || data.enabled) return null;
  return (
    <Note tone="warn" title="Reading rows is switched off on this server">
      The operator's setting <code className="mono">queries.enabled</code> decides it. <code className="mono">firn sql --engine local-spark</code> reads tables with Spark on your machine.
    </Note>
  );
}
