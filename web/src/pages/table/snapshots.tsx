import { Drawer } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { snapshots } from '../../api/queries';
import type { Snapshot, Table } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { Count, When } from '../../components/figures';
import { Empty } from '../../components/notes';
import { fullName, paths } from '../../lib/paths';
import { useUrlState } from '../../lib/url-state';
import { SummaryFacts } from './snapshot-details';

const numberOf = (snapshot: Snapshot, key: string): number | null => {
  const text = snapshot.summary[key];
  return text === undefined ? null : Number(text);
};

const engineOf = (snapshot: Snapshot): string => {
  const { 'engine-name': engine, 'engine-version': version, 'firn.job-id': job } = snapshot.summary;
  const by = engine === undefined ? '–' : `${engine} ${version ?? ''}`;
  return job === undefined ? by : `${by}, a job`;
};

const COLUMNS: Column<Snapshot>[] = [
  { key: 'id', title: 'Snapshot', cell: (one) => <span className="mono">{one.snapshot_id}</span> },
  { key: 'store', title: 'Store', cell: (one) => one.store },
  { key: 'operation', title: 'Operation', cell: (one) => one.operation },
  { key: 'refs', title: 'Refs', cell: (one) => <span className="mono">{one.refs.join(', ')}</span>, wide: true },
  { key: 'added', title: 'Rows added', cell: (one) => <Count value={numberOf(one, 'added-records')} />, right: true },
  { key: 'deleted', title: 'Rows removed', cell: (one) => <Count value={numberOf(one, 'deleted-records')} />, right: true },
  { key: 'rows', title: 'Rows after', cell: (one) => <Count value={numberOf(one, 'total-records')} />, right: true },
  { key: 'files', title: 'Files after', cell: (one) => <Count value={numberOf(one, 'total-data-files')} />, right: true },
  {
    key: 'watermark',
    title: 'Merged through',
    cell: (one) => <Count value={numberOf(one, 'firn.merged-through')} />,
    right: true,
    help: "the change store's sequence number up to which it holds everything",
  },
  { key: 'sequence', title: 'Sequence', cell: (one) => <Count value={one.sequence_number} />, right: true, extra: true },
  { key: 'engine', title: 'By', cell: (one) => <span className="dim">{engineOf(one)}</span> },
  { key: 'at', title: 'When', cell: (one) => <When at={one.committed_at} />, right: true },
];

export function SnapshotsTab({ table }: { table: Table }) {
  const name = fullName(table);
  const { data, error } = useQuery(snapshots(table.catalog, name));
  const [get, set] = useUrlState();
  const open = data?.find((one) => one.snapshot_id === get('snapshot'));
  const columns = table.kind === 'keyed' ? COLUMNS : COLUMNS.filter(({ key }) => key !== 'store' && key !== 'watermark');
  return (
    <>
      <DataTable
        plain
        name="snapshots"
        columns={columns}
        rows={data}
        error={error}
        id={(one) => one.snapshot_id}
        link={(one) => `${paths.table(table.catalog, name, 'snapshots')}&snapshot=${one.snapshot_id}`}
        empty={<Empty title="No snapshot yet">The first write makes one.</Empty>}
      />
      <Drawer
        opened={open !== undefined}
        onClose={() => set({ snapshot: undefined })}
        position="right"
        size="lg"
        title={open && `${open.operation} on ${open.store}`}
        closeButtonProps={{ 'aria-label': 'close' }}
      >
        {open && (
          <SummaryFacts
            summary={open.summary}
            first={[
              { name: 'snapshot', value: <span className="mono">{open.snapshot_id}</span> },
              { name: 'parent', value: <span className="mono">{open.parent_id ?? 'none'}</span> },
              { name: 'committed', value: <When at={open.committed_at} /> },
              { name: 'sequence number', value: <Count value={open.sequence_number} /> },
            ]}
          />
        )}
      </Drawer>
    </>
  );
}
