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
  { key: 'id', title: 'Snapshot', cell: (row) => <span className="mono">{row.snapshot_id}</span> },
  { key: 'store', title: 'Store', cell: (row) => row.store },
  { key: 'operation', title: 'Operation', cell: (row) => row.operation },
  { key: 'refs', title: 'Refs', cell: (row) => <span className="mono">{row.refs.join(', ')}</span>, wide: true },
  { key: 'added', title: 'Rows added', cell: (row) => <Count value={numberOf(row, 'added-records')} />, right: true },
  { key: 'deleted', title: 'Rows removed', cell: (row) => <Count value={numberOf(row, 'deleted-records')} />, right: true },
  { key: 'rows', title: 'Rows after', cell: (row) => <Count value={numberOf(row, 'total-records')} />, right: true },
  { key: 'files', title: 'Files after', cell: (row) => <Count value={numberOf(row, 'total-data-files')} />, right: true },
  {
    key: 'watermark',
    title: 'Merged through',
    cell: (row) => <Count value={numberOf(row, 'firn.merged-through')} />,
    right: true,
    help: "the change store's sequence number up to which it holds everything",
  },
  { key: 'sequence', title: 'Sequence', cell: (row) => <Count value={row.sequence_number} />, right: true, extra: true },
  { key: 'engine', title: 'By', cell: (row) => <span className="dim">{engineOf(row)}</span> },
  { key: 'at', title: 'When', cell: (row) => <When at={row.committed_at} />, right: true },
];

export function SnapshotsTab({ table }: { table: Table }) {
  const name = fullName(table);
  const { data, error } = useQuery(snapshots(table.catalog, name));
  const [get, set] = useUrlState();
  const open = data?.find((item) => item.snapshot_id === get('snapshot'));
  const columns = table.kind === 'keyed' ? COLUMNS : COLUMNS.filter(({ key }) => key !== 'store' && key !== 'watermark');
  return (
    <>
      <DataTable
        plain
        name="snapshots"
        columns={columns}
        rows={data}
        error={error}
        id={(row) => row.snapshot_id}
        link={(row) => `${paths.table(table.catalog, name, 'snapshots')}&snapshot=${row.snapshot_id}`}
        empty={<Empty title="No snapshot yet">The first write creates one.</Empty>}
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
