import { useInfiniteQuery } from '@tanstack/react-query';

import { answered, api } from '../api/client';
import { hiveViews } from '../api/hive-queries';
import type { HiveView } from '../api/types';
import { ActionButton } from '../components/action-button';
import { useDo } from '../components/confirm-dialog';
import { DataTable, type Column } from '../components/data-table';
import { need, onTable, scopeOf } from '../lib/access';
import { partsOf } from '../lib/names';
import styles from './migration.module.css';

const STATES: Record<HiveView['state'], string> = {
  ready: 'Ready',
  waiting: 'Waits',
  inexact: 'Not the same',
  created: 'Created',
  changed: 'Changed in Hive',
  taken: 'Name in use',
};

/** The views of the metastore: which can be Iceberg views with the same rows, and why others cannot. */
export function HiveViews({ catalog }: { catalog: string }) {
  const { data, error, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(hiveViews(catalog));
  const views = data?.pages.flatMap((page) => page.items);
  if (views?.length === 0) return null;
  return (
    <DataTable
      name="views"
      title="Views"
      columns={columns(catalog)}
      rows={views}
      error={error}
      id={(view) => view.name}
      empty={null}
      more={{ has: hasNextPage, loading: isFetchingNextPage, load: () => void fetchNextPage() }}
    />
  );
}

function columns(catalog: string): Column<HiveView>[] {
  return [
    { key: 'name', title: 'View', cell: (view) => <span className="mono">{view.name}</span> },
    { key: 'state', title: 'State', cell: (view) => STATES[view.state] },
    {
      key: 'why',
      title: 'Query',
      wide: true,
      cell: (view) => (
        <div className={`wrap-anywhere ${styles.fix}`}>
          {view.reason}
          <details>
            <summary className="dim">{view.sql === null ? 'SQL of Hive' : 'SQL of Spark'}</summary>
            <pre className={styles.sql}>{view.sql ?? view.text}</pre>
          </details>
        </div>
      ),
    },
    { key: 'act', title: '', right: true, cell: (view) => <Create catalog={catalog} view={view} /> },
  ];
}

function Create({ catalog, view }: { catalog: string; view: HiveView }) {
  const create = useDo(`cannot create ${view.name}`, () =>
    answered(api.POST('/catalogs/{catalog}/hive/views/{full_name}', { params: { path: { catalog, full_name: view.name } } })),
  );
  if (view.state !== 'ready' && view.state !== 'changed') return null;
  const namespace = scopeOf(catalog, partsOf(view.name).slice(0, -1));
  return (
    <ActionButton
      size="compact-xs"
      variant="default"
      needs={[...need(namespace, 'create'), ...need(onTable(catalog, view.name), 'read', 'write')]}
      loading={create.isPending}
      onClick={() => create.mutate()}
    >
      {view.state === 'ready' ? 'Create' : 'Replace'}
    </ActionButton>
  );
}
