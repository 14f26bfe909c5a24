import { Button, Select, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconDownload, IconSearch } from '@tabler/icons-react';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useParams } from 'react-router';

import { exported } from '../api/client';
import { hiveDatabases, hiveTables, migration, type HiveFilter } from '../api/hive-queries';
import type { HiveOrder, HiveRow, Migration, MigrationBlocker } from '../api/types';
import { useDo } from '../components/confirm-dialog';
import { Choice } from '../components/choice';
import { DataTable, type Column } from '../components/data-table';
import { Bytes, Count, When } from '../components/figures';
import { ListedTable } from '../components/job-parts';
import { Empty, ProblemNote, Words } from '../components/notes';
import { Page, Panel } from '../components/panel';
import { HiveMark } from '../components/status-icons';
import { saveFile } from '../lib/download';
import { many } from '../lib/format';
import { filterFrom, MIGRATION_STATES, SIZES, shareOf } from '../lib/migration';
import { paths } from '../lib/paths';
import { useUrlState } from '../lib/url-state';
import { FurtherFilters } from './further-filters';
import { hiveName } from './hive-list';
import { HiveViews } from './hive-views';
import styles from './migration.module.css';
import { StartWave } from './start-wave';
import { Waves } from './waves';

/** A whole metastore on its way to Firn: what is done, what can be, what cannot and why; waves do the rest. */
export function MigrationPage() {
  const { catalog = '' } = useParams();
  const [get] = useUrlState();
  const filter = filterFrom(get);
  const all = useQuery(migration(catalog, {}));
  return (
    <Page
      title="Migration"
      sub="All tables of the metastore, and the waves that upgrade them in place"
      actions={
        <>
          <Export catalog={catalog} filter={filter} />
          <Button component={Link} to={paths.hive(catalog)} variant="default">
            Hive tables
          </Button>
        </>
      }
    >
      {all.error && <ProblemNote error={all.error} what="cannot count the tables" />}
      {all.data && <Progress found={all.data} />}
      <Waves catalog={catalog} />
      {all.data && all.data.blockers.length > 0 && <Blockers blockers={all.data.blockers} />}
      <Tables catalog={catalog} filter={filter} />
      <HiveViews catalog={catalog} />
    </Page>
  );
}

function Export({ catalog, filter }: { catalog: string; filter: HiveFilter }) {
  const save = useDo('cannot export', async () => {
    saveFile('migration.csv', 'text/csv', await exported(`/catalogs/${encodeURIComponent(catalog)}/hive/migration/csv`, { ...filter }));
  });
  return (
    <Button variant="default" leftSection={<IconDownload size={14} />} loading={save.isPending} onClick={() => save.mutate()}>
      Export CSV
    </Button>
  );
}

const TABLES = 'tables';

/** Chooses tables, and scrolls to them: they lie below. */
function useShowTables() {
  const [, set] = useUrlState();
  return (change: Parameters<typeof set>[0]) => {
    set(change);
    document.getElementById(TABLES)?.scrollIntoView();
  };
}

/** Every state as a part of one bar; each number leads to its tables. */
function Progress({ found }: { found: Migration }) {
  const showTables = useShowTables();
  return (
    <Panel
      title={many(found.tables, 'table')}
      aside={
        <span className="dim">
          {found.bytes === null ? (
            <span title="The metastore has no statistics of these tables. A check counts their files.">sizes unknown until a check</span>
          ) : (
            <>
              <Bytes value={found.bytes} />, <Count value={found.rows} /> rows known
            </>
          )}
        </span>
      }
    >
      <div className={styles.bar} aria-hidden>
        {MIGRATION_STATES.map(({ state }) => (
          <span key={state} data-state={state} style={{ width: `${shareOf(found, state)}%` }} />
        ))}
      </div>
      <dl className={styles.facts}>
        {MIGRATION_STATES.map(({ state, label, show }) => {
          const count = found.states.find((item) => item.state === state);
          return (
            <div key={state}>
              <dt>
                <span className={styles.dot} data-state={state} aria-hidden />
                <button type="button" className={styles.number} title="show these tables" onClick={() => showTables({ state: undefined, failed: undefined, ...show })}>
                  {label}
                </button>
              </dt>
              <dd>
                <Count value={count?.tables} />
                <span className="dim">
                  {count !== undefined && count.tables > 0 && <Bytes value={count.bytes} />}
                </span>
              </dd>
            </div>
          );
        })}
        <div>
          <dt>Published</dt>
          <dd>
            <Count value={found.published} />
          </dd>
        </div>
        <div>
          <dt>Checked</dt>
          <dd>
            <Count value={found.checked} />
            {found.unknown_size > 0 && <span className="dim">{many(found.unknown_size, 'size')} unknown</span>}
          </dd>
        </div>
      </dl>
    </Panel>
  );
}

function Blockers({ blockers }: { blockers: MigrationBlocker[] }) {
  const showTables = useShowTables();
  const columns: Column<MigrationBlocker>[] = [
    {
      key: 'code',
      title: 'Blocker',
      cell: (row) => (
        <button type="button" className={styles.number} title="show these tables" onClick={() => showTables({ blocker: row.code, state: undefined, failed: undefined })}>
          <span className="mono">{row.code}</span>
        </button>
      ),
    },
    { key: 'tables', title: 'Tables', cell: (row) => <Count value={row.tables} />, right: true },
    { key: 'bytes', title: 'Size', cell: (row) => <Bytes value={row.bytes} />, right: true },
    {
      key: 'fix',
      title: 'Example and fix',
      wide: true,
      cell: (row) => (
        <div className={`wrap-anywhere ${styles.fix}`}>
          {!row.message.includes(row.example) && (
            <>
              <span className="mono">{row.example}</span>:{' '}
            </>
          )}
          <Words>{row.message}</Words>.{' '}
          <span className="dim">
            <Words>{row.advice}</Words>
          </span>
        </div>
      ),
    },
  ];
  return <DataTable name="blockers" title="Blockers" columns={columns} rows={blockers} id={(row) => row.code} empty={null} />;
}

const STATES = [
  { value: 'all', label: 'All' },
  { value: 'hive', label: 'Eligible' },
  { value: 'blocked', label: 'Blocked' },
  { value: 'failed', label: 'Failed' },
  { value: 'upgrading', label: 'Upgrading' },
  { value: 'upgraded', label: 'Upgraded' },
];

const COLUMNS = (catalog: string): Column<HiveRow>[] => [
  { key: 'name', title: 'Hive table', sort: 'name', cell: (row) => <ListedTable table={hiveName(row)} /> },
  { key: 'state', title: 'State', cell: (row) => <State row={row} /> },
  { key: 'bytes', title: 'Size', sort: 'bytes', cell: (row) => <Bytes value={row.bytes} />, right: true },
  { key: 'rows', title: 'Rows', sort: 'rows', cell: (row) => <Count value={row.rows} />, right: true },
  { key: 'partitions', title: 'Partitions', sort: 'partitions', cell: (row) => <Count value={row.partitions} />, right: true },
  { key: 'last_write', title: 'Last write', sort: 'last_write', cell: (row) => <When at={row.last_write} />, right: true, help: 'The last change that Hive noticed' },
  { key: 'format', title: 'Format', cell: (row) => row.format },
  { key: 'writer', title: 'Writer', cell: (row) => row.writer ?? <span className="dim">–</span>, help: 'The user of the last ALTER, or else the owner' },
  { key: 'checked', title: 'Checked', cell: (row) => <When at={row.checked_at} />, right: true, extra: true },
  { key: 'why', title: 'Problem', cell: (row) => <Problem row={row} catalog={catalog} />, wide: true },
];

function State({ row }: { row: HiveRow }) {
  return <HiveMark state={row.state} />;
}

function Problem({ row, catalog }: { row: HiveRow; catalog: string }) {
  const first = row.blockers[0];
  const text = row.failure ?? first?.message;
  if (text === undefined) return null;
  return (
    <Link to={paths.whyNotUpgraded(catalog, hiveName(row))} className={`wrap-anywhere ${styles.problem}`}>
      {text}
    </Link>
  );
}

function Tables({ catalog, filter }: { catalog: string; filter: HiveFilter }) {
  const [get, set] = useUrlState();
  const sort = (get('sort') ?? 'name') as HiveOrder;
  const found = useInfiniteQuery(hiveTables(catalog, filter, sort));
  const rows = found.data?.pages.flatMap((page) => page.items);
  return (
    <>
      <Filters catalog={catalog} />
      <StartWave catalog={catalog} filter={filter} />
      <DataTable
        name="tables of the migration"
        columns={COLUMNS(catalog)}
        rows={rows}
        error={found.error}
        id={hiveName}
        link={(row) => (row.upgraded_to === null ? paths.upgrade(catalog, hiveName(row), row.operation_id) : paths.table(catalog, row.upgraded_to))}
        sorted={{ by: sort, set: (by) => set({ sort: by === 'name' ? undefined : by }) }}
        more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
        empty={<Empty title="No matching Hive tables">Choose another state, database or size.</Empty>}
      />
    </>
  );
}

function Filters({ catalog }: { catalog: string }) {
  const [get, set] = useUrlState();
  const databases = useQuery(hiveDatabases(catalog)).data?.map((item) => item.name) ?? [];
  const [text, setText] = useState(get('search') ?? '');
  const find = useDebouncedCallback((value: string) => set({ search: value.trim() }), 250);
  const state = get('failed') === 'true' ? 'failed' : (get('state') ?? 'all');
  const choose = (value: string) =>
    set({ failed: value === 'failed' ? 'true' : undefined, state: value === 'all' || value === 'failed' ? undefined : value });
  const blocker = get('blocker');
  return (
    <div id={TABLES} className={`row row-wrap ${styles.anchor}`}>
      <Choice label="state" value={state} set={choose} options={STATES} />
      <Select aria-label="database" w={160} searchable value={get('database') ?? ''} onChange={(value) => set({ database: value ?? undefined })} data={[{ value: '', label: 'Every database' }, ...databases]} />
      <Select aria-label="size" w={150} value={get('size') ?? ''} onChange={(value) => set({ size: value ?? undefined })} data={SIZES.map(({ value, label }) => ({ value, label }))} />
      <Select
        aria-label="checked"
        w={150}
        value={get('checked') ?? ''}
        onChange={(value) => set({ checked: value ?? undefined })}
        data={[
          { value: '', label: 'Checked or not' },
          { value: 'true', label: 'Checked' },
          { value: 'false', label: 'Not checked' },
        ]}
      />
      <TextInput
        aria-label="search by name"
        placeholder="Part of a name"
        leftSection={<IconSearch size={14} />}
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          find(event.currentTarget.value);
        }}
      />
      <FurtherFilters />
      {blocker !== undefined && (
        <Button variant="light" size="xs" onClick={() => set({ blocker: undefined })} title="show tables with any blocker">
          blocker: {blocker} ×
        </Button>
      )}
    </div>
  );
}
