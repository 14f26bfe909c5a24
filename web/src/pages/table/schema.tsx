import { IconKey } from '@tabler/icons-react';

import type { Column as TableColumn, Table } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';

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
  return <DataTable plain name="schema" columns={COLUMNS} rows={table.columns} id={(row) => String(row.id)} empty={null} />;
}
