import { Link } from 'react-router';

import type { Table } from '../../api/types';
import { Bytes, Count, When } from '../../components/figures';
import { Facts } from '../../components/panel';
import { count } from '../../lib/format';
import { fullName, paths } from '../../lib/paths';
import { HealthParts } from './health';
import { keysFact } from './keys';
import { StoresStrip } from './stores';
import { Timeline } from './timeline';
import styles from './overview.module.css';

/** What takes points from the table's health, its figures, where its rows are, and what happened to it. */
export function OverviewTab({ table }: { table: Table }) {
  return (
    <div className={styles.overview}>
      <Figures table={table} />
      {table.kind !== 'view' && <HealthParts table={table} />}
      {table.kind === 'keyed' && <StoresStrip table={table} />}
      <Timeline catalog={table.catalog} table={fullName(table)} />
    </div>
  );
}

/** How many of its files are small, and how many of these a rewrite could pack. */
function smallNote(table: Table): { note?: string } {
  const { small_files: small, packable_files: packable } = table;
  if (small === null || packable === null || (small === 0 && packable === 0)) return {};
  return { note: `${count(small)} small, ${packable === 0 ? 'none' : count(packable)} can be packed` };
}

function Figures({ table }: { table: Table }) {
  const main = table.stores.base ?? table.stores.table;
  const keyed = table.kind === 'keyed';
  return (
    <Facts
      facts={[
        { name: keyed ? 'rows in base' : 'rows', value: <Count value={table.records} /> },
        ...(keyed ? [{ name: 'pending changes', value: <Count value={table.pending_rows} className={table.pending_rows > 0 ? 'accent' : ''} /> }] : []),
        { name: 'size', value: <Bytes value={table.bytes} /> },
        { name: 'files', value: <Count value={table.data_files} />, ...smallNote(table) },
        { name: 'delete files', value: <Count value={table.delete_files} /> },
        { name: 'snapshots', value: <Count value={table.snapshots} /> },
        { name: 'partitioned by', value: table.partition_by.length === 0 ? <span className="dim">not partitioned</span> : <span className="mono">{table.partition_by.join(', ')}</span> },
        ...(keyed ? [keysFact(table)] : []),
        { name: 'format', value: main === undefined ? '–' : `Iceberg v${main.format_version}` },
        {
          name: 'last write',
          value: <When at={table.last_commit_at} />,
          note: <Link to={paths.table(table.catalog, fullName(table), 'history')}>who and what</Link>,
        },
      ]}
    />
  );
}
