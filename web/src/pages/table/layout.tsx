import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { tableFiles } from '../../api/queries';
import type { Partition, Table } from '../../api/types';
import { Choice } from '../../components/choice';
import { DataTable, type Column } from '../../components/data-table';
import { Bytes, Count } from '../../components/figures';
import { Empty, ProblemNote } from '../../components/notes';
import { bytes, count, many } from '../../lib/format';
import { cellOf, inOrder, quartersOf, valueText, warmth, type Cell } from '../../lib/heat';
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
const wantsRewrite = (row: Partition): boolean => row.packable_files > 0;

/** Most files first, equal ones in the order of people. */
function worstFirst(item: Partition, other: Partition): number {
  const more = other.data_files + other.delete_files - item.data_files - item.delete_files;
  return more === 0 ? item.partition.localeCompare(other.partition, 'en', { numeric: true }) : more;
}

const COLUMNS: Column<Partition>[] = [
  { key: 'partition', title: 'Partition', cell: (row) => <span className="mono">{row.partition === '' ? 'whole table' : row.partition}</span>, wide: true },
  { key: 'files', title: 'Files', cell: (row) => <Count value={row.data_files} />, right: true },
  { key: 'small', title: 'Small', cell: (row) => <Count value={row.small_files} className={row.packable_files > 0 ? '' : 'dim'} />, right: true },
  { key: 'packable', title: 'Can be packed', cell: (row) => <Count value={row.packable_files} className={row.packable_files > 0 ? '' : 'dim'} />, right: true },
  { key: 'deletes', title: 'Delete files', cell: (row) => <Count value={row.delete_files} className={row.delete_files > 0 ? '' : 'dim'} />, right: true },
  { key: 'rows', title: 'Rows', cell: (row) => <Count value={row.records} />, right: true },
  { key: 'size', title: 'Size', cell: (row) => <Bytes value={row.bytes} />, right: true },
  { key: 'mean', title: 'Mean file', cell: (row) => <Bytes value={row.data_files === 0 ? 0 : row.bytes / row.data_files} />, right: true },
];

/** Files per partition as a heat map; golden is what the next rewrite would take. */
export function LayoutTab({ table }: { table: Table }) {
  const { data, error } = useQuery(tableFiles(table.catalog, fullName(table), table.last_commit_at));
  const [metric, setMetric] = useState<Metric>('bytes');
  const stores = [...new Set(data?.map((item) => item.store))];
  const [store, setStore] = useState<string | undefined>();
  const shown = store ?? (stores.includes('base') ? 'base' : stores[0]);
  const partitions = data?.filter((item) => item.store === shown) ?? [];
  if (error && data === undefined) return <div style={{ padding: 14 }}><ProblemNote error={error} what="cannot read the layout" /></div>;
  if (data?.length === 0) return <Empty title="No files yet">The first write adds files.</Empty>;
  const due = partitions.filter(wantsRewrite).length;
  return (
    <>
      <div className={styles.head}>
        <Choice label="what the heat shows" value={metric} set={(value) => setMetric(value as Metric)} options={[...METRICS]} />
        {stores.length > 1 && <Choice label="store" value={shown ?? ''} set={setStore} options={stores.map((store) => ({ value: store, label: store }))} />}
        <span className="dim">
          {many(partitions.length, 'partition')}
          {due > 0 && `, ${count(due)} golden: a ${shown === 'change' ? 'compaction' : 'rewrite'} now would pack files of ${due === 1 ? 'it' : 'them'}`}
        </span>
        <Scale values={partitions.map((item) => item[metric])} text={metric === 'bytes' ? bytes : count} />
      </div>
      {data && <Heat partitions={partitions} metric={metric} />}
      <DataTable
        plain
        name="partitions with most files"
        columns={COLUMNS}
        rows={data && [...partitions].sort(worstFirst).slice(0, SHOWN)}
        id={(row) => `${row.store}/${row.partition}`}
        empty={<Empty title={`No files in ${shown ?? 'it'}`} />}
      />
      {partitions.length > SHOWN && <div className={styles.rest}>The {SHOWN} partitions with most files of {count(partitions.length)}.</div>}
    </>
  );
}

/** Each tone stands for a quarter of the partitions that have any. */
function Scale({ values, text }: { values: number[]; text: (value: number) => string }) {
  const quarters = quartersOf(values);
  const most = values.reduce((largest, value) => Math.max(largest, value), 0);
  const least = values.reduce((smallest, value) => (value > 0 ? Math.min(smallest, value) : smallest), most);
  if (most === 0 || least === most) return null;
  return (
    <span className={styles.scale} aria-hidden>
      {text(least)}
      {[...quarters, most].map((upTo, index) => (
        <i key={index} className={styles.cell} data-heat={index + 1} title={`up to ${text(upTo)}`} />
      ))}
      {text(most)}
    </span>
  );
}

function Heat({ partitions, metric }: { partitions: Partition[]; metric: Metric }) {
  const cells = partitions.map((partition) => cellOf(partition.partition, partition));
  const rows = inOrder(cells.map((cell) => cell.row));
  const quarters = quartersOf(partitions.map((item) => item[metric]));
  const flat = rows.length === 1 && rows[0] === '';
  const columns = inOrder(cells.map((cell) => cell.column));
  const byPlace = new Map(cells.map((cell) => [`${cell.row}|${cell.column}`, cell]));
  if (partitions.length < 2) return null;
  if (rows.length * columns.length > MOST_CELLS) return <div className={styles.rest}>There are too many partitions to draw. The table below lists those with the most files.</div>;
  return (
    <div className={styles.heat} role="img" aria-label={`heat map of ${partitions.length} partitions; the table below has the same numbers`}>
      {flat ? (
        <div className={styles.flat}>
          {columns.map((column) => (
            <HeatCell key={column} cell={byPlace.get(`|${column}`)} metric={metric} quarters={quarters} />
          ))}
        </div>
      ) : (
        rows.map((row) => (
          <div key={row} className={styles.line}>
            <span className={`mono dim ${styles.rowName}`}>{row}</span>
            {columns.map((column) => (
              <HeatCell key={column} cell={byPlace.get(`${row}|${column}`)} metric={metric} quarters={quarters} />
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

function HeatCell({ cell, metric, quarters }: { cell: Cell<Partition> | undefined; metric: Metric; quarters: number[] }) {
  if (cell === undefined) return <i className={styles.cell} data-heat="none" />;
  const item = cell.value;
  const text = `${item.partition}\n${many(item.data_files, 'file')}, ${bytes(item.bytes)}, ${many(item.records, 'row')}\n${many(item.small_files, 'small file')} (${count(item.packable_files)} can be packed), ${many(item.delete_files, 'delete file')}`;
  return <i className={styles.cell} data-heat={warmth(item[metric], quarters)} data-due={wantsRewrite(item)} title={text} />;
}
