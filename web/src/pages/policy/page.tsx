import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from 'react-router';

import { answered, api } from '../../api/client';
import { policy } from '../../api/queries';
import { Databases } from '../../components/databases';
import { Page, Panel } from '../../components/panel';
import { need, scopeOf } from '../../lib/access';
import { partsOf } from '../../lib/names';
import { paths } from '../../lib/paths';
import { useUrlState } from '../../lib/url-state';
import { PolicyEditor, type Place } from './editor';
import split from '../tables.module.css';

/** What a catalog or one of its databases asks of the background work for all of its tables. */
export function PoliciesPage() {
  const { catalog = '' } = useParams();
  const [get] = useUrlState();
  const database = get('database');
  const { data, error } = useQuery(policy(catalog, database));
  const place = placeOf(catalog, database);
  return (
    <Page
      title="Policies"
      sub={
        <>
          Defaults for all tables of <span className="mono">{database ?? catalog}</span>. The narrowest value wins: table, database, catalog, default.
        </>
      }
    >
      <div className={split.split}>
        <Databases catalog={catalog} chosen={database} all={`All of ${catalog}`} to={(row) => paths.policies(catalog, row)} />
        <Panel
          flush
          title={database === undefined ? `Catalog ${catalog}` : `Database ${database}`}
          aside={<Link to={paths.tables(catalog, database)}>its tables</Link>}
        >
          <PolicyEditor key={place.source} place={place} settings={data?.effective} error={error} />
        </Panel>
      </div>
    </Page>
  );
}

function placeOf(catalog: string, namespace: string | undefined): Place {
  return {
    catalog,
    source: namespace === undefined ? 'catalog' : `namespace ${namespace}`,
    called: namespace === undefined ? 'this catalog' : 'this database',
    needs: (setting) => need(scopeOf(catalog, namespace === undefined ? [] : partsOf(namespace)), ...setting.takes),
    save: (key, value) =>
      answered(
        api.PATCH('/catalogs/{catalog}/policy', {
          params: { path: { catalog }, query: { namespace } },
          body: value === null ? { remove: [key] } : { set: { [key]: value } },
        }),
      ),
  };
}
