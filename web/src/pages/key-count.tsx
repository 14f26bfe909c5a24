import { useQuery } from '@tanstack/react-query';

import { answered, api } from '../api/client';
import { operation as operationQuery } from '../api/queries';
import type { HiveReport, Operation } from '../api/types';
import { ActionButton } from '../components/action-button';
import { useDo } from '../components/confirm-dialog';
import { DataTable, type Column } from '../components/data-table';
import { Count, When } from '../components/figures';
import { InTerminal } from '../components/in-terminal';
import { Note, Words } from '../components/notes';
import { need, onTable } from '../lib/access';
import { countOf, type KeyCount as Counted } from '../lib/key-count';
import { many } from '../lib/format';
import { firn } from '../lib/terminal';
import { useUrlState } from '../lib/url-state';
import { OperationActions } from './operation-actions';
import { OperationBar } from './operations';

interface KeyCountProps {
  catalog: string;
  report: HiveReport;
  columns: string[];
  properties: Record<string, string>;
}

/** Counts duplicate keys before the upgrade: the server reads all rows, and the page shows how far it is. */
export function KeyCount({ catalog, report, columns, properties }: KeyCountProps) {
  const [get, set] = useUrlState();
  const id = get('count');
  const { data: running } = useQuery({ ...operationQuery(id ?? ''), enabled: id !== undefined });
  const start = useDo('cannot count the keys', async () => {
    const body = { tables: [report.table], filter: null, key: { primary_key: columns, sequence_field: null, key_scope: 'global' as const }, properties, dry_run: true, unique: true };
    const started = await answered(api.POST('/catalogs/{catalog}/hive/upgrade', { params: { path: { catalog } }, body }));
    const { items } = await answered(api.GET('/operations', { params: { query: { catalog, batch: started.batch?.id, limit: 1 } } }));
    set({ count: items[0]?.id });
  });
  const isRunning = running?.ended_at === null;
  return (
    <div className="stack" role="group" aria-label="duplicate keys">
      {isRunning ? (
        <div className="row">
          <div className="grow">
            <OperationBar operation={running} />
          </div>
          <OperationActions operation={running} />
        </div>
      ) : (
        <div className="row row-wrap">
          <ActionButton variant="default" needs={need(onTable(catalog, report.table), 'maintain')} loading={start.isPending} onClick={() => start.mutate()}>
            {running === undefined ? 'Count duplicate keys' : 'Count again'}
          </ActionButton>
          <span className="dim">Reads the key columns of all rows, and changes nothing.</span>
        </div>
      )}
      {running !== undefined && !isRunning && <Result operation={running} />}
      <InTerminal command={firn('hive check', [report.table], { catalog, 'primary-key': columns.join(','), unique: true })} />
    </div>
  );
}

const COLUMNS: Column<Counted['sample'][number]>[] = [
  {
    key: 'key',
    title: 'Key',
    cell: (row) => (
      <span className="mono wrap-anywhere">
        {Object.entries(row.key)
          .map(([name, value]) => `${name}=${value}`)
          .join(', ')}
      </span>
    ),
    wide: true,
  },
  { key: 'rows', title: 'Rows', cell: (row) => <Count value={row.rows} />, right: true },
];

function Result({ operation }: { operation: Operation }) {
  const counted = countOf(operation.result);
  if (counted === null)
    return (
      <Note tone="warn" title="The keys were not counted">
        <Words>{operation.error ?? (operation.result.uniqueness as { reason?: string } | undefined)?.reason ?? 'Another check blocks the upgrade, see above.'}</Words>
      </Note>
    );
  const isUnique = counted.surplus_rows === 0 && counted.null_rows === 0;
  const problems = [
    counted.surplus_rows > 0 && `${many(counted.surplus_rows, 'duplicate row')} of ${many(counted.keys, 'key')}`,
    counted.null_rows > 0 && `${many(counted.null_rows, 'row')} with a null in the key`,
  ].filter((text) => text !== false);
  return (
    <Note tone={isUnique ? 'info' : 'bad'} title={isUnique ? `Every key occurs once in ${many(counted.rows, 'row')}` : problems.join(', ')}>
      <div className="stack">
        <span>
          Read {many(counted.rows, 'row')} of the files as they were listed <When at={counted.listed_at} />.
          {counted.changed_meanwhile > 0 && ` ${many(counted.changed_meanwhile, 'partition')} changed since: the count does not cover that.`}
        </span>
        {counted.sample.length > 0 && (
          <DataTable plain name="duplicate keys" columns={COLUMNS} rows={counted.sample} id={(row) => JSON.stringify(row.key)} empty={null} />
        )}
        {counted.keys > counted.sample.length && counted.sample.length > 0 && <span className="dim">These keys have the most rows.</span>}
      </div>
    </Note>
  );
}
