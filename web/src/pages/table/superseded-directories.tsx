import { useQuery } from '@tanstack/react-query';

import { supersededDirectories } from '../../api/hive-queries';
import type { SupersededDirectory } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { Bytes, Count, When } from '../../components/figures';
import { ProblemNote } from '../../components/notes';
import { bytes, many } from '../../lib/format';

const COLUMNS: Column<SupersededDirectory>[] = [
  { key: 'partition', title: 'Partition', cell: (row) => (row.partition === '' ? <span className="dim">the whole table</span> : <span className="mono">{row.partition}</span>) },
  { key: 'location', title: 'Location', cell: (row) => <span className="mono dim wrap-anywhere">{row.location}</span>, wide: true },
  { key: 'whose', title: 'Made by', cell: (row) => (row.owned_by_hive ? 'Hive' : 'a publish'), help: 'Firn never deletes directories that Hive made' },
  { key: 'files', title: 'Files', cell: (row) => <Count value={row.files} />, right: true },
  { key: 'bytes', title: 'Size', cell: (row) => <Bytes value={row.bytes} />, right: true },
  { key: 'left', title: 'Superseded', cell: (row) => <When at={row.superseded_at} />, right: true },
  { key: 'until', title: 'Grace period ends', cell: (row) => <When at={row.grace_until} />, right: true, help: 'Until then Firn syncs files that late writers add there' },
];

/** The directories that publishes have replaced, with their bytes and the end of their grace period. */
export function SupersededDirectories({ catalog, hive }: { catalog: string; hive: string }) {
  const { data, error } = useQuery(supersededDirectories(catalog, hive));
  if (data === undefined) return error ? <ProblemNote error={error} what="cannot list the superseded directories" /> : null;
  if (data.directories === 0 && data.kept_directories === 0) return null;
  const unnamed = data.directories - data.largest.length;
  return (
    <>
      <div>
        <b>Superseded directories: {bytes(data.bytes + data.kept_bytes)}</b>
        <div className="dim">
          Hive reads these directories no longer. Firn never deletes those that Hive made; deleting them ends time travel to before the publish. Orphan removal deletes those that a publish made, once no snapshot needs them.
          {data.kept_directories > 0 && ` Of these, ${bytes(data.kept_bytes)} in ${many(data.kept_directories, 'directory', 'directories')} of Hive are past their grace period.`}
        </div>
      </div>
      {data.directories > 0 && (
        <DataTable plain name="superseded directories" columns={COLUMNS} rows={data.largest} id={(row) => row.location} empty={null} />
      )}
      {unnamed > 0 && <span className="dim">and {many(unnamed, 'smaller directory', 'smaller directories')}</span>}
    </>
  );
}
