import { Modal, Tabs } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answered, api } from '../api/client';
import type { View, ViewVersion } from '../api/types';
import { ActionButton } from '../components/action-button';
import { DataTable, type Column } from '../components/data-table';
import { Star } from '../components/favourites';
import { When } from '../components/figures';
import { TableName } from '../components/job-parts';
import { KindMark } from '../components/status-icons';
import { Empty, ProblemNote } from '../components/notes';
import { Facts, Page, Panel } from '../components/panel';
import { Copy, Snippet } from '../components/snippet';
import { need, onTable } from '../lib/access';
import { fullName } from '../lib/paths';
import { useUrlState } from '../lib/url-state';
import { ChangeList } from './table/changes';
import { ViewDescription } from './table/description';
import { HistoryTab } from './table/history';
import { LineageTab } from './table/lineage';
import styles from './table.module.css';

/** A stored view: its SQL for each engine, its columns, its versions. */
export function ViewPage({ view }: { view: View }) {
  const name = fullName(view);
  const current = view.versions.find((version) => version.is_current);
  const [get, set] = useUrlState();
  const tab = get('tab') ?? 'sql';
  return (
    <Page
      title={
        <span className="row">
          <TableName table={name} />
          <Copy text={`${view.catalog}.${name}`} what="name" />
          <Star catalog={view.catalog} table={name} />
        </span>
      }
      sub={
        <>
          <KindMark kind="view" />
          <ViewDescription view={view} />
        </>
      }
    >
      <Panel>
        <Facts
          facts={[
            { name: 'version', value: view.current_version },
            { name: 'written', value: <When at={current?.committed_at} /> },
            { name: 'by', value: current?.engine ?? '–' },
            { name: 'default namespace', value: <span className="mono">{current?.default_namespace ?? '–'}</span> },
            { name: 'created', value: <When at={view.created_at} /> },
          ]}
        />
      </Panel>
      <section className={styles.details}>
        <Tabs value={tab} onChange={(value) => set({ tab: value === 'sql' ? undefined : (value ?? undefined), entry: undefined, direction: undefined, depth: undefined, column: undefined })} keepMounted={false}>
          <Tabs.List className={styles.tabs ?? ''} aria-label="details">
            <Tabs.Tab value="sql">SQL</Tabs.Tab>
            <Tabs.Tab value="schema">Schema</Tabs.Tab>
            <Tabs.Tab value="lineage">Lineage</Tabs.Tab>
            <Tabs.Tab value="versions">Versions</Tabs.Tab>
            <Tabs.Tab value="history">History</Tabs.Tab>
          </Tabs.List>
          <Tabs.Panel value="sql">
            <div className="stack" style={{ padding: 14 }}>
              {Object.entries(current?.sql ?? {}).map(([dialect, sql]) => (
                <section key={dialect}>
                  <h2 className={styles.dialect}>{dialect}</h2>
                  <Snippet label={`SQL for ${dialect}`} code={sql} />
                </section>
              ))}
            </div>
          </Tabs.Panel>
          <Tabs.Panel value="schema">
            <DataTable plain name="schema" columns={SCHEMA} rows={current?.columns ?? []} id={(row) => row.name} empty={<Empty title="No columns" />} />
          </Tabs.Panel>
          <Tabs.Panel value="lineage"><LineageTab catalog={view.catalog} name={name} columns={(current?.columns ?? []).map((column) => column.name)} /></Tabs.Panel>
          <Tabs.Panel value="versions"><Versions view={view} /></Tabs.Panel>
          <Tabs.Panel value="history"><HistoryTab catalog={view.catalog} name={name} /></Tabs.Panel>
        </Tabs>
      </section>
    </Page>
  );
}

const SCHEMA: Column<ViewVersion['columns'][number]>[] = [
  { key: 'name', title: 'Column', cell: (row) => <span className="mono">{row.name}</span> },
  { key: 'type', title: 'Type', cell: (row) => <span className="mono">{row.type}</span> },
  { key: 'comment', title: 'Comment', cell: (row) => <span className="dim">{row.comment}</span>, wide: true },
];

function Versions({ view }: { view: View }) {
  const [get, set] = useUrlState();
  const columns: Column<ViewVersion>[] = [
    { key: 'version', title: 'Version', cell: (row) => <span className="mono">{row.version_id}</span> },
    { key: 'sql', title: 'SQL', cell: (row) => <span className="mono dim">{Object.keys(row.sql).join(', ')}</span> },
    { key: 'columns', title: 'Columns', cell: (row) => <span className="mono dim">{row.columns.map((column) => column.name).join(', ')}</span>, wide: true },
    { key: 'by', title: 'By', cell: (row) => <span className="dim">{row.engine ?? '–'}</span> },
    { key: 'at', title: 'Written', cell: (row) => <When at={row.committed_at} />, right: true },
    {
      key: 'actions',
      title: '',
      right: true,
      cell: (row) => (
        <ActionButton size="compact-xs" variant="default" needs={need(onTable(view.catalog, fullName(view)), 'write')} disabledReason={row.is_current ? 'The view reads as this version.' : null} onClick={() => set({ back: String(row.version_id) })}>
          Roll back
        </ActionButton>
      ),
    },
  ];
  const target = Number(get('back'));
  return (
    <>
      <DataTable plain name="versions" columns={columns} rows={view.versions} id={(row) => String(row.version_id)} empty={null} />
      <Modal
        opened={get('back') !== undefined}
        onClose={() => set({ back: undefined })}
        size="xl"
        title={`${fullName(view)}: roll back to version ${target}`}
        closeButtonProps={{ 'aria-label': 'close' }}
      >
        {get('back') !== undefined && <Back view={view} target={target} close={() => set({ back: undefined })} />}
      </Modal>
    </>
  );
}

function Back({ view, target, close }: { view: View; target: number; close: () => void }) {
  const queries = useQueryClient();
  const [seen] = useState(view.current_version);
  const post = (dry: boolean) =>
    answered(
      api.POST('/catalogs/{catalog}/views/{view}/rollback', {
        params: { path: { catalog: view.catalog, view: fullName(view) }, query: { dry_run: dry } },
        body: { version_id: target, expected_version: dry ? null : seen },
      }),
    );
  const dry = useQuery({ queryKey: ['dry-run', view.id, target, seen], queryFn: () => post(true), gcTime: 0, retry: false });
  const doing = useMutation({
    mutationFn: () => post(false),
    onSuccess: async () => {
      await queries.invalidateQueries();
      close();
    },
  });
  return (
    <div className="stack">
      {dry.data && (
        <>
          <div>Engines would read version {target} instead of {seen}; all versions stay.</div>
          <ChangeList changes={dry.data.changes} />
        </>
      )}
      {(dry.error ?? doing.error) && <ProblemNote error={dry.error ?? doing.error} />}
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <ActionButton variant="default" onClick={close}>
          Cancel
        </ActionButton>
        <ActionButton loading={doing.isPending} disabledReason={dry.data === undefined ? 'Preview the rollback first.' : null} onClick={() => doing.mutate()}>
          Roll back
        </ActionButton>
      </div>
    </div>
  );
}
