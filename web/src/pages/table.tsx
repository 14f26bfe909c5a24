import { Switch, Tabs } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { Link, useParams } from 'react-router';

import { answered, api } from '../api/client';
import { asProblem } from '../api/problem';
import { table as tableQuery, tableJobs, view as viewQuery } from '../api/queries';
import type { Table } from '../api/types';
import { useDo } from '../components/confirm-dialog';
import { DataTable } from '../components/data-table';
import { Star, useFavourites } from '../components/favourites';
import { jobColumns, TableName } from '../components/job-parts';
import { KindMark } from '../components/status-icons';
import { useMe, useWhyNot } from '../components/current-user';
import { Empty, ProblemNote } from '../components/notes';
import { Page, Panel } from '../components/panel';
import { Copy } from '../components/snippet';
import { need, onTable } from '../lib/access';
import { isPartial } from '../lib/column-rules';
import { fullName, paths } from '../lib/paths';
import { forgetTable, rememberTable } from '../lib/search';
import { logOf } from '../lib/streams';
import { useUrlState } from '../lib/url-state';
import { TableActions } from './table/actions';
import { PublishRequestPanel } from './table/publish-request';
import { Blockers } from './table/blockers';
import { ChangesTab } from './table/changed-rows';
import { TableDescription } from './table/description';
import { DowngradeProgress } from './table/downgrade';
import { HealthScore } from './table/health';
import { HiveTab } from './table/hive';
import { HistoryTab } from './table/history';
import { LayoutTab } from './table/layout';
import { DuplicateKeys } from './table/keys';
import { LineageTab } from './table/lineage';
import { NextJob } from './table/next-job';
import { OverviewTab } from './table/overview';
import { PolicyTab } from './table/policy';
import { PreviewTab } from './table/preview';
import { PropertiesTab } from './table/properties';
import { QuarantineTab } from './table/quarantine';
import { RefsTab } from './table/refs';
import { SchemaTab } from './table/schema';
import { SnapshotsTab } from './table/snapshots';
import { TrendsTab } from './table/trends';
import { WritersTab } from './table/writers';
import { HowToUse } from './connect-snippets';
import { ViewPage } from './view';
import styles from './table.module.css';

export function TablePage() {
  const { catalog = '', table = '' } = useParams();
  // Anew for each: what is being asked or typed about one table must not be answered for the next.
  return <OneTable key={`${catalog}/${table}`} catalog={catalog} name={table} />;
}

/** The search offers the tables that were looked at last. */
function useRecent(catalog: string, table: string, { isThere, isGone = false }: { isThere: boolean; isGone?: boolean }) {
  const { name: who } = useMe();
  const { remove: removeFavourite } = useFavourites();
  useEffect(() => {
    if (isThere) rememberTable(who, { catalog, table });
    if (isGone) {
      forgetTable(who, { catalog, table });
      removeFavourite({ catalog, table });
    }
  }, [who, catalog, table, isThere, isGone, removeFavourite]);
}

/** One table: what it is, what comes next, where its rows are, what happened to it. */
function OneTable({ catalog, name }: { catalog: string; name: string }) {
  const { data: table, error } = useQuery(tableQuery(catalog, name));
  useRecent(catalog, name, { isThere: table !== undefined });
  if (table === undefined) {
    return error ? <PerhapsView catalog={catalog} name={name} error={error} /> : <Page title={<TableName table={name} />}><Panel>…</Panel></Page>;
  }
  return (
    <Page
      title={
        <span className="row">
          <TableName table={name} />
          <Copy text={`${catalog}.${name}`} what="name" />
          <Star catalog={catalog} table={name} />
        </span>
      }
      sub={
        <>
          <Kind table={table} />
          {table.kind !== 'view' && <TableDescription table={table} />}
        </>
      }
      actions={table.kind === 'view' ? undefined : <TableActions table={table} />}
    >
      {error && <ProblemNote error={error} what="this page may be out of date" />}
      {table.kind !== 'view' && (
        <>
          {table.hive_name !== null && <DowngradeProgress catalog={catalog} hive={table.hive_name} />}
          {table.hive_name !== null && <PublishRequestPanel catalog={catalog} hive={table.hive_name} />}
          <Blockers table={table} />
          <DuplicateKeys table={table} />
          <div className={styles.standing}>
            <HealthScore table={table} />
            <NextJob table={table} />
          </div>
        </>
      )}
      <Details table={table} />
    </Page>
  );
}

/** A name that is no table's may be a stored view's: links need not know which. */
function PerhapsView({ catalog, name, error }: { catalog: string; name: string; error: unknown }) {
  const view = useQuery(viewQuery(catalog, name));
  useRecent(catalog, name, { isThere: view.data !== undefined, isGone: view.error !== null && asProblem(view.error).code === 'not_found' });
  if (view.data) return <ViewPage view={view.data} />;
  return <Page title={<TableName table={name} />}>{view.isPending ? <Panel>…</Panel> : <Missing catalog={catalog} error={error} />}</Page>;
}

/** Nobody learns whether a table exists that they may not see: so all reasons are named. */
function Missing({ catalog, error }: { catalog: string; error: unknown }) {
  const { access, admin } = useMe();
  return (
    <>
      <ProblemNote error={error} />
      {asProblem(error).code === 'not_found' && (
        <p className="dim">
          Somebody may have renamed it: search for it. It may be among the <Link className="inline" to={paths.dropped(catalog)}>dropped tables</Link>.{access && !admin && ' Or you lack the privilege “list” on it: ask an administrator.'}
        </p>
      )}
    </>
  );
}

function Kind({ table }: { table: Table }) {
  return (
    <span className="row row-wrap" style={{ gap: 14 }}>
      <KindMark kind={table.kind} />
      {table.primary_key.length > 0 && (
        <span>
          key <span className="mono">{table.primary_key.join(', ')}</span>
        </span>
      )}
      {table.sequence_field !== null && (
        <span>
          newest by <span className="mono">{table.sequence_field}</span>
        </span>
      )}
      {table.properties['firn.insert-only'] === 'true' && <span>the first row of a key wins</span>}
      {isPartial(table.properties) && <span>changes may set some columns only</span>}
      {table.read_in_v3 !== null && (
        <span title="Trino 476, ClickHouse and Daft do not read deletion vectors, and fail with an error">
          engines read it in format v3: {table.read_in_v3}
        </span>
      )}
      {table.hides !== null && (
        <span>
          reads hide <span className="mono">{table.hides}</span>
        </span>
      )}
      {table.kind !== 'view' && <Protection table={table} />}
      {table.hive_name !== null && (
        <span>
          upgraded from Hive's <Link className="mono inline" to={`${paths.hive(table.catalog)}?search=${table.hive_name.split('.').pop() ?? ''}`}>{table.hive_name}</Link>
        </span>
      )}
    </span>
  );
}

/** Whether it may be dropped, from whatever engine. */
function Protection({ table }: { table: Table }) {
  const path = { catalog: table.catalog, table: fullName(table) };
  const why = useWhyNot()(...need(onTable(table.catalog, fullName(table)), 'maintain'));
  const change = useDo('cannot change the protection', () =>
    answered(
      table.protected
        ? api.POST('/catalogs/{catalog}/tables/{table}/unprotect', { params: { path } })
        : api.POST('/catalogs/{catalog}/tables/{table}/protect', { params: { path } }),
    ),
  );
  return (
    <Switch
      size="xs"
      label="protected against dropping"
      checked={table.protected}
      disabled={change.isPending || why !== null}
      title={why ?? undefined}
      onChange={() => change.mutate()}
    />
  );
}

const TABS = ['overview', 'schema', 'preview', 'layout', 'history', 'lineage', 'trends', 'changes', 'writers', 'quarantine', 'refs', 'snapshots', 'jobs', 'hive', 'policy', 'properties', 'use'] as const;
const LABELS: Record<(typeof TABS)[number], string> = {
  overview: 'Overview',
  schema: 'Schema',
  preview: 'Preview',
  layout: 'Layout',
  history: 'History',
  lineage: 'Lineage',
  trends: 'Trends',
  changes: 'Changes',
  writers: 'Writers and consumers',
  quarantine: 'Quarantine',
  refs: 'Branches and tags',
  snapshots: 'Snapshots',
  jobs: 'Jobs',
  hive: 'Hive',
  policy: 'Policy',
  properties: 'Properties',
  use: 'How to use',
};

/** What a change of the tab takes out of the address: it belongs to another tab. */
const OF_TABS = { snapshot: undefined, entry: undefined, partition: undefined, about: undefined, since: undefined, until: undefined, follow: undefined, at: undefined, range: undefined, direction: undefined, depth: undefined, column: undefined };

function isShown(tab: (typeof TABS)[number], table: Table): boolean {
  if (tab === 'hive') return table.hive_name !== null;
  if (tab === 'changes') return table.kind === 'keyed';
  if (tab === 'quarantine') return table.kind === 'keyed' && logOf(table) !== null;
  return (tab !== 'writers' && tab !== 'preview' && tab !== 'trends') || table.kind !== 'view';
}

function labelOf(tab: (typeof TABS)[number], table: Table): string {
  return tab === 'writers' && table.kind !== 'keyed' ? 'Writers' : LABELS[tab];
}

/** On a small screen the tabs scroll sideways: the chosen one has to be among those in view. */
function useChosenInView(tab: string) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const chosen = list.current?.querySelector('[role="tab"][aria-selected="true"]')?.getBoundingClientRect();
    if (list.current === null || chosen === undefined) return;
    const shown = list.current.getBoundingClientRect();
    if (chosen.left < shown.left || chosen.right > shown.right) list.current.scrollLeft += chosen.left - shown.left - shown.width / 3;
  }, [tab]);
  return list;
}

function Details({ table }: { table: Table }) {
  const [get, set] = useUrlState();
  const shown = TABS.filter((item) => isShown(item, table));
  const tab = shown.find((item) => item === get('tab')) ?? 'overview'; // an old link may name a tab that is gone
  const tabs = useChosenInView(tab);
  return (
    <section className={styles.details}>
      <Tabs value={tab} onChange={(value) => set({ ...OF_TABS, tab: value === 'overview' ? undefined : (value ?? undefined) })} keepMounted={false}>
        <Tabs.List ref={tabs} className={styles.tabs ?? ''} aria-label="details">
          {shown.map((item) => (
            <Tabs.Tab key={item} value={item}>
              {labelOf(item, table)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="overview"><OverviewTab table={table} /></Tabs.Panel>
        <Tabs.Panel value="schema"><SchemaTab table={table} /></Tabs.Panel>
        {table.kind !== 'view' && <Tabs.Panel value="preview"><PreviewTab table={table} /></Tabs.Panel>}
        <Tabs.Panel value="layout"><LayoutTab table={table} /></Tabs.Panel>
        <Tabs.Panel value="history"><HistoryTab catalog={table.catalog} name={fullName(table)} table={table} /></Tabs.Panel>
        <Tabs.Panel value="lineage"><LineageTab catalog={table.catalog} name={fullName(table)} columns={table.columns.map(({ name }) => name)} /></Tabs.Panel>
        {table.kind !== 'view' && <Tabs.Panel value="trends"><TrendsTab table={table} /></Tabs.Panel>}
        {table.kind === 'keyed' && <Tabs.Panel value="changes"><ChangesTab table={table} /></Tabs.Panel>}
        {table.kind !== 'view' && <Tabs.Panel value="writers"><WritersTab table={table} /></Tabs.Panel>}
        {isShown('quarantine', table) && <Tabs.Panel value="quarantine"><QuarantineTab table={table} /></Tabs.Panel>}
        <Tabs.Panel value="refs"><RefsTab table={table} /></Tabs.Panel>
        <Tabs.Panel value="snapshots"><SnapshotsTab table={table} /></Tabs.Panel>
        <Tabs.Panel value="jobs"><JobsTab table={table} /></Tabs.Panel>
        {table.hive_name !== null && (
          <Tabs.Panel value="hive"><HiveTab catalog={table.catalog} hive={table.hive_name} table={fullName(table)} /></Tabs.Panel>
        )}
        <Tabs.Panel value="policy"><PolicyTab table={table} /></Tabs.Panel>
        <Tabs.Panel value="properties"><PropertiesTab table={table} /></Tabs.Panel>
        <Tabs.Panel value="use">
          <div style={{ padding: 14 }}>
            <HowToUse table={table} />
          </div>
        </Tabs.Panel>
      </Tabs>
    </section>
  );
}

function JobsTab({ table }: { table: Table }) {
  const found = useInfiniteQuery(tableJobs(table.catalog, fullName(table)));
  return (
    <DataTable
      plain
      name="jobs of this table"
      columns={jobColumns(false)}
      rows={found.data?.pages.flatMap((page) => page.items)}
      error={found.error}
      id={(job) => job.id}
      link={(job) => paths.job(job.id)}
      more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
      empty={<Empty title="No job has run on this table">{table.next.reason}</Empty>}
    />
  );
}
