import { IconKey } from '@tabler/icons-react';

import type { Column as TableColumn, Table } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';

const COLUMNS: Column<TableColumn>[] = [
  {
    key: 'name',
    title: 'Column',
    cell: (one) => (
      <span className="mono row" style={{ gap: 6 }}>
        {one.name}
        {one.is_key && <IconKey size={13} className="accent" role="img" aria-label="part of the key" />}
      </span>
    ),
  },
  { key: 'type', title: 'Type', cell: (one) => <span className="mono">{one.type}</span> },
  { key: 'required', title: 'Nullable', cell: (one) => (one.required ? <span className="dim">no</span> : 'yes') },
  { key: 'comment', title: 'Comment', cell: (one) => <span className="dim">{one.comment}</span>, wide: true },
  { key: 'id', title: 'Field id', cell: (one) => <span className="dim">{one.id}</span>, right: true },
];

export function SchemaTab({ table }: { table: Table }) {
  return <DataTable plain name="schema" columns={COLUMNS} rows={table.columns} id={(one) => String(one.id)} empty={null} />;
}
