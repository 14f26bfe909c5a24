import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { tableFiles } from '../../api/queries';
import type { Partition, Table } from '../../api/types';
import { Choice } from '../../components/choice';
import { DataTable, type Column } from '../../components/data-table';
import { Bytes, Count } from '../../components/figures';
import { Empty, ProblemNote } from '../../components/notes';
import { bytes, count, many } from '../../lib/format';
import { cellOf, inOrder, valueText, warmth, type Cell } from '../../lib/heat';
import { fullName } from '../../lib/paths';
import styles from './layout.module.css';

const METRICS = [
  { value: 'bytes', label: 'Size' },
  { value: 'data_files', label: 'Files' },
  { value: 'records', label: 'Rows' },
  { value: 'delete_files', label: 'Delete files' },
] as const;
type Metric = (typeof METRICS)[number]['value'];

const SHOWN = 50;
/** More than a browser draws at once. */
const MOST_CELLS = 10_000;

/** Whether a rewrite (of changes: a compaction) asked for now would take files of it: the server says so by the job's own rule. */
const wantsRewrite = (one: Partition): boolean => one.packable_files > 0;

/** Most files first, equal ones in the order of people. */
function worstFirst(one: Partition, other: Partition): number {
  const more = other.data_files + other.delete_files - one.data_files - one.delete_files;
  return more === 0 ? one.partition.localeCompare(other.partition, 'en', { numeric: true }) : more;
}

const COLUMNS: Column<Partition>[] = [
  { key: 'partition', title: 'Partition', cell: (one) => <span className="mono">{one.partition === '' ? 'whole table' : one.partition}</span>, wide: true },
  { key: 'files', title: 'Files', cell: (one) => <Count value={one.data_files} />, right: true },
  { key: 'small', title: 'Small', cell: (one) => <Count value={one.small_files} className={one.packable_files > 0 ? '' : 'dim'} />, right: true },
  { key: 'packable', title: 'Can be packed', cell: (one) => <Count value={one.packable_files} className={one.packable_files > 0 ? '' : 'dim'} />, right: true },
  { key: 'deletes', title: 'Delete files', cell: (one) => <Count value={one.delete_files} className={one.delete_files > 0 ? '' : 'dim'} />, right: true },
  { key: 'rows', title: 'Rows', cell: (one) => <Count value={one.records} />, right: true },
  { key: 'size', title: 'Size', cell: (one) => <Bytes value={one.bytes} />, right: true },
  { key: 'mean', title: 'Mean file', cell: (one) => <Bytes value={one.data_files === 0 ? 0 : one.bytes / one.data_files} />, right: true },
];

/** Files per partition as a heat map; golden is what the next rewrite would take. */
export function LayoutTab({ table }: { table: Table }) {
  const { data, error } = useQuery(tableFiles(table.catalog, fullName(table), table.last_commit_at));
  const [metric, setMetric] = useState<Metric>('bytes');
  const stores = [...new Set(data?.map((one) => one.store))];
  const [store, setStore] = useState<string | undefined>();
  const shown = store ?? (stores.includes('base') ? 'base' : stores[0]);
  const partitions = data?.filter((one) => one.store === shown) ?? [];
  if (error && data === undefined) return <div style={{ padding: 14 }}><ProblemNote error={error} what="cannot read the layout" /></div>;
  if (data?.length === 0) return <Empty title="No files yet">The first write adds files.</Empty>;
  const due = partitions.filter(wantsRewrite).length;
  return (
    <>
      <div className={styles.head}>
        <Choice label="what the heat shows" value={metric} set={(value) => setMetric(value as Metric)} options={[...METRICS]} />
        {stores.length > 1 && <Choice label="store" value={shown ?? ''} set={setStore} options={stores.map((one) => ({ value: one, label: one }))} />}
        <span className="dim">
          {many(partitions.length, 'partition')}
          {due > 0 && `, ${count(due)} golden: a ${shown === 'change' ? 'compaction' : 'rewrite'} now would pack files of ${due === 1 ? 'it' : 'them'}`}
        </span>
        <Scale />
      </div>
      {data && <Heat partitions={partitions} metric={metric} />}
      <DataTable
        plain
        name="partitions with most files"
        columns={COLUMNS}
        rows={data && [...partitions].sort(worstFirst).slice(0, SHOWN)}
        id={(one) => `${one.store}/${one.partition}`}
        empty={<Empty title={`No files in ${shown ?? 'it'}`} />}
      />
      {partitions.length > SHOWN && <div className={styles.rest}>The {SHOWN} partitions with most files of {count(partitions.length)}.</div>}
    </>
  );
}

function Scale() {
  return (
    <span className={styles.scale} aria-hidden>
      less
      {[0, 1, 2, 3, 4].map((heat) => (
        <i key={heat} className={styles.cell} data-heat={heat} />
      ))}
      more
    </span>
  );
}

function Heat({ partitions, metric }: { partitions: Partition[]; metric: Metric }) {
  const cells = partitions.map((one) => cellOf(one.partition, one));
  const rows = inOrder(cells.map((cell) => cell.row));
  const largest = partitions.reduce((most, one) => Math.max(most, one[metric]), 0);
  const flat = rows.length === 1 && rows[0] === '';
  const columns = inOrder(cells.map((cell) => cell.column));
  const byPlace = new Map(cells.map((cell) => [`${cell.row}|${cell.column}`, cell]));
  if (partitions.length < 2) return null;
  if (rows.length * columns.length > MOST_CELLS) return <div className={styles.rest}>There are too many partitions to draw: those with most files are below.</div>;
  return (
    <div className={styles.heat} role="img" aria-label={`heat map of ${partitions.length} partitions; the table below has the same numbers`}>
      {flat ? (
        <div className={styles.flat}>
          {columns.map((column) => (
            <HeatCell key={column} cell={byPlace.get(`|${column}`)} metric={metric} largest={largest} />
          ))}
        </div>
      ) : (
        rows.map((row) => (
          <div key={row} className={styles.line}>
            <span className={`mono dim ${styles.rowName}`}>{row}</span>
            {columns.map((column) => (
              <HeatCell key={column} cell={byPlace.get(`${row}|${column}`)} metric={metric} largest={largest} />
            ))}
          </div>
        ))
      )}
      {!flat && columns.length <= 62 && (
        <div className={styles.line}>
          <span className={styles.rowName} />
          {columns.map((column, index) => (
            <span key={column} className={`dim ${styles.columnName}`}>
              {index % 5 === 0 ? valueText(column).slice(0, 5) : ''}
            </span>
          ))}
        </div>
      )}
    </div>
  );
}

function HeatCell({ cell, metric, largest }: { cell: Cell<Partition> | undefined; metric: Metric; largest: number }) {
  if (cell === undefined) return <i className={styles.cell} data-heat="none" />;
  const one = cell.value;
  const text = `${one.partition}\n${many(one.data_files, 'file')}, ${bytes(one.bytes)}, ${many(one.records, 'row')}\n${many(one.small_files, 'small file')} (${count(one.packable_files)} can be packed), ${many(one.delete_files, 'delete file')}`;
  return <i className={styles.cell} data-heat={warmth(one[metric], largest)} data-due={wantsRewrite(one)} title={text} />;
}
