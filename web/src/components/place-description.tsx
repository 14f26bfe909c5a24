import { useQuery } from '@tanstack/react-query';

import { answered, api } from '../api/client';
import { catalogs, namespace as namespaceQuery } from '../api/queries';
import { need, scopeOf } from '../lib/access';
import { optionsOf } from '../lib/description';
import { partsOf } from '../lib/names';
import { firn } from '../lib/terminal';
import { Description } from './description';

export function NamespaceDescription({ catalog, name }: { catalog: string; name: string }) {
  const { data } = useQuery(namespaceQuery(catalog, name));
  if (data === undefined) return null;
  return (
    <Description
      key={`${catalog}/${name}`}
      of={`namespace ${name}`}
      description={data.description}
      needs={need(scopeOf(catalog, partsOf(name)), 'write')}
      save={(change) => answered(api.PATCH('/catalogs/{catalog}/namespaces/{namespace}/description', { params: { path: { catalog, namespace: name } }, body: change }))}
      command={(change) => {
        const given = optionsOf(change);
        return given && firn('namespace describe', [name], { comment: given.comment, owner: given.owner, label: given.label, 'remove-label': given['remove-label'], catalog });
      }}
    />
  );
}

export function CatalogDescription({ catalog }: { catalog: string }) {
  const { data } = useQuery(catalogs());
  const found = data?.find(({ name }) => name === catalog);
  if (found === undefined) return null;
  return (
    <Description
      key={catalog}
      of={`catalog ${catalog}`}
      description={found.description}
      needs={need(scopeOf(catalog), 'maintain')}
      save={(change) => answered(api.PATCH('/catalogs/{catalog}/description', { params: { path: { catalog } }, body: change }))}
      command={(change) => {
        const given = optionsOf(change);
        return given && firn('catalog describe', [catalog], { comment: given.comment, owner: given.owner, label: given.label, 'remove-label': given['remove-label'] });
      }}
    />
  );
}
