import { answered, api } from '../../api/client';
import type { Table, View } from '../../api/types';
import { Description } from '../../components/description';
import { need, onTable } from '../../lib/access';
import { optionsOf } from '../../lib/description';
import { fullName } from '../../lib/paths';
import { firn } from '../../lib/terminal';

export function TableDescription({ table }: { table: Table }) {
  const name = fullName(table);
  return (
    <Description
      of={`table ${name}`}
      description={table.description}
      needs={need(onTable(table.catalog, name), 'write')}
      save={(change) => answered(api.PATCH('/catalogs/{catalog}/tables/{table}/description', { params: { path: { catalog: table.catalog, table: name } }, body: change }))}
      command={(change) => {
        const given = optionsOf(change);
        return given && firn('table describe', [name], { comment: given.comment, owner: given.owner, label: given.label, 'remove-label': given['remove-label'], catalog: table.catalog });
      }}
    />
  );
}

export function ViewDescription({ view }: { view: View }) {
  const name = fullName(view);
  return (
    <Description
      of={`view ${name}`}
      description={view.description}
      needs={need(onTable(view.catalog, name), 'write')}
      save={(change) => answered(api.PATCH('/catalogs/{catalog}/views/{view}/description', { params: { path: { catalog: view.catalog, view: name } }, body: change }))}
      command={() => null}
    />
  );
}
