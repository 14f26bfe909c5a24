import type { Table } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { Empty } from '../../components/notes';

const COLUMNS: Column<[string, string]>[] = [
  { key: 'key', title: 'Property', cell: ([key]) => <span className="mono">{key}</span> },
  {
    key: 'value',
    title: 'Value',
    cell: ([, value]) => (
      <div className="mono truncate" style={{ maxWidth: 720 }} title={value}>
        {value}
      </div>
    ),
    wide: true,
  },
];

export function PropertiesTab({ table }: { table: Table }) {
  const rows = Object.entries(table.properties).sort(([key], [other]) => key.localeCompare(other));
  return <DataTable plain name="properties" columns={COLUMNS} rows={rows} id={([key]) => key} empty={<Empty title="No property is set" />} />;
}
