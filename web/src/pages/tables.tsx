import { Button, Select, TextInput } from '@mantine/core';
import { useDebouncedCallback, useDisclosure } from '@mantine/hooks';
import { IconPlus, IconSearch } from '@tabler/icons-react';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link, useParams } from 'react-router';

import { tables } from '../api/queries';
import type { TableKind, TableRow, TableSort } from '../api/types';
import { Choice } from '../components/choice';
import { Databases } from '../components/databases';
import { DataTable, type Column } from '../components/data-table';
import { Bytes, Count, When } from '../components/figures';
import { HealthBar } from '../components/health';
import { TableName } from '../components/job-parts';
import { KindMark } from '../components/status-icons';
import { Empty } from '../components/notes';
import { Page } from '../components/panel';
import { CatalogDescription, NamespaceDescription } from '../components/place-description';
import { fullName, paths } from '../lib/paths';
import { useUrlState } from '../lib/url-state';
import { CreateTable } from './create-table';
import { DroppedList } from './dropped-list';
import { HiveList } from './hive-list';
import styles from './tables.module.css';

const KINDS = [
  { value: 'all', label: 'All' },
  { value: 'keyed', label: 'Keyed' },
  { value: 'plain', label: 'Plain' },
  { value: 'view', label: 'Views' },
  { value: 'hive', label: 'Not upgraded' },
  { value: 'dropped', label: 'Dropped' },
];

const BELOW = ['90', '75', '50', '25'];

/** A count of a table; a view stores no rows and has none. */
function stored(row: TableRow, value: number): number | null {
  return row.kind === 'view' ? null : value;
}

const COLUMNS: Column<TableRow>[] = [
  { key: 'name', title: 'Table', cell: (row) => <TableName table={fullName(row)} />, wide: true, sort: 'name' },
  { key: 'health', title: 'Health', cell: (row) => <Health row={row} />, sort: 'health', help: '100: healthy; details on hover' },
  { key: 'kind', title: 'Kind', cell: (row) => <KindMark kind={row.kind} /> },
  { key: 'hive', title: 'Hive', cell: (row) => <span className="mono dim">{row.hive_name ?? '–'}</span>, help: 'the Hive table it was upgraded from' },
  { key: 'rows', title: 'Rows', cell: (row) => <Count value={stored(row, row.records)} />, right: true, help: 'in the base store for a keyed table' },
  { key: 'pending', title: 'Pending', cell: (row) => <Pending row={row} />, right: true, help: 'changes not yet merged', sort: 'pending' },
  { key: 'size', title: 'Size', cell: (row) => <Bytes value={stored(row, row.bytes)} />, right: true, sort: 'size' },
  { key: 'files', title: 'Files', cell: (row) => <Count value={stored(row, row.data_files)} />, right: true, sort: 'files' },
  { key: 'small', title: 'Small', cell: (row) => (row.small_files === null ? <span className="dim">–</span> : <Count value={row.small_files} />), right: true, help: 'small files, counted seconds after each commit' },
  { key: 'deletes', title: 'Delete files', cell: (row) => <Count value={stored(row, row.delete_files)} />, right: true, extra: true },
  { key: 'snapshots', title: 'Snapshots', cell: (row) => <Count value={stored(row, row.snapshots)} />, right: true, extra: true },
  { key: 'written', title: 'Last write', cell: (row) => <When at={row.last_commit_at} />, right: true, sort: 'last_commit' },
];

function Health({ row }: { row: TableRow }) {
  return (
    <span title={row.reason ?? undefined}>
      <HealthBar score={row.health} label={`health of ${fullName(row)}`} />
    </span>
  );
}

function Pending({ row }: { row: TableRow }) {
  if (row.kind !== 'keyed') return <span className="dim">–</span>;
  return <Count value={row.pending_rows} className={row.pending_rows > 0 ? 'accent' : 'dim'} />;
}

/** The databases as a tree, their tables as a list. */
export function TablesPage() {
  const { catalog = '' } = useParams();
  const [creating, { open, close }] = useDisclosure(false);
  const [get, set] = useUrlState();
  const kind = get('kind') ?? 'all';
  const database = get('database');
  const find = useDebouncedCallback((text: string) => set({ search: text.trim() }), 250);
  return (
    <Page
      title="Tables"
      sub={database === undefined ? <CatalogDescription catalog={catalog} /> : <NamespaceDescription catalog={catalog} name={database} />}
      actions={
        <>
          <Button component={Link} to={paths.trends(catalog, database)} variant="default">
            Trends
          </Button>
          <Button component={Link} to={paths.policies(catalog, database)} variant="default">
            {database === undefined ? 'Policy' : `Policy of ${database}`}
          </Button>
          <Button leftSection={<IconPlus size={14} />} onClick={open}>
            Create table
          </Button>
        </>
      }
    >
      <div className={styles.split}>
        <Databases catalog={catalog} chosen={database} all="All databases" to={(row) => paths.tables(catalog, row)} />
        <div className={`stack ${styles.list}`}>
          <div className="row row-wrap">
            <Choice label="kind of table" value={kind} set={(value) => set({ kind: value === 'all' ? undefined : value })} options={KINDS} />
            <TextInput
              aria-label="search by name"
              placeholder="Part of a name"
              leftSection={<IconSearch size={14} />}
              defaultValue={get('search') ?? ''}
              onChange={(event) => find(event.currentTarget.value)}
              className={styles.search}
            />
            {kind !== 'hive' && kind !== 'dropped' && (
              <Select
                aria-label="health"
                w={150}
                value={get('health') ?? ''}
                onChange={(value) => set({ health: value ?? undefined })}
                data={[{ value: '', label: 'Any health' }, ...BELOW.map((score) => ({ value: score, label: `Health below ${score}` }))]}
              />
            )}
          </div>
          {kind === 'hive' && <HiveList catalog={catalog} filter={{ state: 'hive', ...optional({ database, search: get('search') }) }} />}
          {kind === 'dropped' && <DroppedList catalog={catalog} database={database} search={get('search')} />}
          {kind !== 'hive' && kind !== 'dropped' && <List catalog={catalog} create={open} />}
        </div>
      </div>
      <CreateTable catalog={catalog} namespace={database ?? ''} opened={creating} close={close} />
    </Page>
  );
}

/** The given values without those that are not given. */
function optional<T extends object>(values: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [Key in keyof T]?: Exclude<T[Key], undefined>;
  };
}

function List({ catalog, create }: { catalog: string; create: () => void }) {
  const [get, set] = useUrlState();
  const kind = get('kind') as TableKind | undefined;
  const below = get('health');
  const sort = get('sort') as TableSort | undefined;
  const filter = optional({ kind, namespace: get('database'), search: get('search'), health_below: below === undefined ? undefined : Number(below) });
  const found = useInfiniteQuery(tables(catalog, optional({ ...filter, sort })));
  const filtered = Object.keys(filter).length > 0;
  return (
    <DataTable
      name="tables"
      columns={COLUMNS}
      rows={found.data?.pages.flatMap((page) => page.items)}
      error={found.error}
      id={fullName}
      link={(row) => paths.table(catalog, fullName(row))}
      sorted={{ by: sort ?? 'name', set: (by) => set({ sort: by === 'name' ? undefined : by }) }}
      more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
      empty={
        filtered ? (
          <Empty title="No matching tables">Choose another kind, database, health or search text.</Empty>
        ) : (
          <Empty
            title={`${catalog} has no tables yet`}
            action={
              <div className="row">
                <Button component={Link} to={paths.hive(catalog)}>
                  Upgrade a Hive table
                </Button>
                <Button variant="default" onClick={create}>
                  Create a table
                </Button>
              </div>
            }
          >
            Upgrade a Hive table in place, create a table here, or run CREATE TABLE in Spark.
          </Empty>
        )
      }
    />
  );
}
