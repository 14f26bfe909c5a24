import { IconKey } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { answered, api } from '../../api/client';
import { tableColumns } from '../../api/queries';
import type { Column as TableColumn, ColumnStatistics, Table, TableColumns } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { ColumnForm, EditButton, Labels } from '../../components/description';
import { ProblemNote } from '../../components/notes';
import { need, onTable } from '../../lib/access';
import { isPartial, readColumnRules } from '../../lib/column-rules';
import { distinctOf, endOf, nullsOf, sizeOf, type Figure } from '../../lib/column-statistics';
import type { DescriptionChange } from '../../lib/description';
import { many } from '../../lib/format';
import { fullName } from '../../lib/paths';
import { DistributionButton } from './distribution';

type Statistics = ReadonlyMap<number, ColumnStatistics>;

const columnsOf = (table: Table, found: Statistics | null): Column<TableColumn>[] => [
  {
    key: 'name',
    title: 'Column',
    cell: (item) => (
      <span className="mono row" style={{ gap: 6 }}>
        {item.name}
        {item.is_key && <IconKey size={13} className="accent" role="img" aria-label="part of the key" />}
      </span>
    ),
  },
  { key: 'type', title: 'Type', cell: (row) => <span className="mono">{row.type}</span> },
  { key: 'required', title: 'Nullable', cell: (row) => (row.required ? <span className="dim">no</span> : 'yes') },
  { key: 'nulls', title: 'Nulls', cell: (row) => <Shown figure={figureOf(found, row, nullsOf)} />, right: true },
  { key: 'lower', title: 'Smallest', cell: (row) => <Shown figure={figureOf(found, row, (column) => endOf(column, 'lower'))} mono /> },
  { key: 'upper', title: 'Largest', cell: (row) => <Shown figure={figureOf(found, row, (column) => endOf(column, 'upper'))} mono /> },
  { key: 'size', title: 'Size', cell: (row) => <Shown figure={figureOf(found, row, sizeOf)} />, right: true },
  { key: 'distinct', title: 'Distinct', cell: (row) => <Shown figure={figureOf(found, row, distinctOf)} />, right: true },
  { key: 'distribution', title: 'Distribution', cell: (row) => table.kind !== 'view' && <DistributionButton table={table} column={row.name} /> },
  { key: 'comment', title: 'Comment', cell: (row) => <Comment table={table} column={row} />, wide: true },
  { key: 'id', title: 'Field id', cell: (row) => <span className="dim">{row.id}</span>, right: true },
];

export function SchemaTab({ table }: { table: Table }) {
  const { data, error } = useQuery({ ...tableColumns(table.catalog, fullName(table), `${table.last_commit_at} ${table.pending_rows}`), enabled: table.kind !== 'view' });
  const found = data === undefined ? null : new Map(data.columns.map((column) => [column.id, column]));
  const columns = isPartial(table.properties) ? withRules(table, found) : columnsOf(table, found);
  return (
    <>
      <DataTable plain name="schema" columns={columns} rows={table.columns} id={(row) => String(row.id)} empty={null} />
      {error !== null && <ProblemNote error={error} what="cannot count the columns" />}
      {data !== undefined && <Basis counted={data} />}
    </>
  );
}

/** What the figures are counted from, and why some of them are not exact. */
function Basis({ counted }: { counted: TableColumns }) {
  return (
    <div className="dim" style={{ padding: '8px 14px', fontSize: 12.5 }}>
      Counted from the statistics of {many(counted.files_read, 'file')} with {many(counted.rows, 'row')}
      {counted.pending_rows > 0 && ', pending changes included'}. {counted.notes.map((note) => `${note.charAt(0).toUpperCase()}${note.slice(1)}.`).join(' ')}
    </div>
  );
}

function figureOf(found: Statistics | null, row: TableColumn, describe: (column: ColumnStatistics) => Figure): Figure | null {
  if (found === null) return { text: '…', note: null };
  const column = found.get(row.id);
  return column === undefined ? null : describe(column);
}

function Shown({ figure, mono = false }: { figure: Figure | null; mono?: boolean }) {
  if (figure === null || figure.text === '–') return <span className="dim" title={figure?.note ?? undefined}>–</span>;
  return (
    <span className={mono ? 'mono truncate' : ''} style={mono ? { maxWidth: 180, display: 'inline-block', verticalAlign: 'bottom' } : undefined} title={[mono ? figure.text : null, figure.note].filter(Boolean).join('\n') || undefined}>
      {figure.text}
    </span>
  );
}

/** The comment and the labels of a column; a form in the same place changes them. */
function Comment({ table, column }: { table: Table; column: TableColumn }) {
  const [editing, setEditing] = useState(false);
  const needs = need(onTable(table.catalog, fullName(table)), 'write');
  const description = { comment: column.comment, owner: null, labels: column.labels };
  const save = ({ comment, add_labels, remove_labels }: DescriptionChange) =>
    answered(
      api.PATCH('/catalogs/{catalog}/tables/{table}/description', {
        params: { path: { catalog: table.catalog, table: fullName(table) } },
        body: { columns: { [column.name]: { ...(comment === undefined ? {} : { comment }), add_labels, remove_labels } } },
      }),
    );
  if (editing) return <ColumnForm column={column.name} description={description} needs={needs} save={save} close={() => setEditing(false)} />;
  return (
    <span className="row row-wrap" style={{ gap: '0 8px' }}>
      <span className="dim">{column.comment}</span>
      <Labels labels={column.labels} />
      {table.kind !== 'view' && <EditButton what={`comment of column ${column.name}`} needs={needs} edit={() => setEditing(true)} />}
    </span>
  );
}

/** What the changes of a row become, column by column, where they may set some columns only. */
function withRules(table: Table, found: Statistics | null): Column<TableColumn>[] {
  const rules = readColumnRules(table.properties);
  const rule: Column<TableColumn> = {
    key: 'rule',
    title: 'Value of a row',
    help: 'How the values that changes set become one. A change may leave columns out; they stay as they are.',
    cell: (row) => (row.is_key ? <span className="dim">key</span> : (rules.get(row.name) ?? <span className="dim">last value set</span>)),
  };
  const columns = columnsOf(table, found);
  return [...columns.slice(0, 3), rule, ...columns.slice(3)];
}
