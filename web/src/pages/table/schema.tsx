import { IconKey } from '@tabler/icons-react';

import type { Column as TableColumn, Table } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { isPartial, readColumnRules } from '../../lib/column-rules';

const COLUMNS: Column<TableColumn>[] = [
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
  { key: 'comment', title: 'Comment', cell: (row) => <span className="dim">{row.comment}</span>, wide: true },
  { key: 'id', title: 'Field id', cell: (row) => <span className="dim">{row.id}</span>, right: true },
];

export function SchemaTab({ table }: { table: Table }) {
  const columns = isPartial(table.properties) ? withRules(table) : COLUMNS;
  return <DataTable plain name="schema" columns={columns} rows={table.columns} id={(row) => String(row.id)} empty={null} />;
}

/** What the changes of a row become, column by column, where they may set some columns only. */
function withRules(table: Table): Column<TableColumn>[] {
  const rules = readColumnRules(table.properties);
  const rule: Column<TableColumn> = {
    key: 'rule',
    title: 'Value of a row',
    help: 'How the values that changes set become one. A change may leave columns out; they stay as they are.',
    cell: (row) => (row.is_key ? <span className="dim">key</span> : (rules.get(row.name) ?? <span className="dim">last value set</span>)),
  };
  return [...COLUMNS.slice(0, 3), rule, ...COLUMNS.slice(3)];
}
