import { Button, Select } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'react-router';

import { publishPreview, hiveEvents, hiveTable } from '../../api/hive-queries';
import { asProblem } from '../../api/problem';
import type { HiveColumnDifference, HiveEvent, HiveTableDetail } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { Bytes, Count, When } from '../../components/figures';
import { Empty, Note, Words } from '../../components/notes';
import { Facts } from '../../components/panel';
import { count, many } from '../../lib/format';
import { paths } from '../../lib/paths';
import { useUrlState } from '../../lib/url-state';
import { SupersededDirectories } from './superseded-directories';

/** How the table and its Hive table stand to each other, and what syncs and publishes did to each partition. */
export function HiveTab({ catalog, hive, table }: { catalog: string; hive: string; table: string }) {
  const { data } = useQuery(hiveTable(catalog, hive));
  return (
    <div className="stack" style={{ padding: 14 }}>
      {data && <LinkState catalog={catalog} data={data} />}
      <Events catalog={catalog} hive={hive} table={table} />
      {data?.published_at && <SupersededDirectories catalog={catalog} hive={hive} />}
    </div>
  );
}

function LinkState({ catalog, data }: { catalog: string; data: HiveTableDetail }) {
  const { unpublished: left } = data;
  return (
    <>
      {data.drift !== null && (
        <Note
          tone="warn"
          title={
            <>
              Out of sync with Hive, first seen <When at={data.drift_since} />
            </>
          }
        >
          {data.drift_kind === 'columns' ? whatToDo(data) : <Words>{data.drift}</Words>}
          {data.likely_author !== null && <div className="dim">Likely author: {data.likely_author}.</div>}
        </Note>
      )}
      <Columns data={data} />
      <Facts
        facts={[
          { name: 'Hive table', value: <span className="mono">{`${data.database}.${data.name}`}</span> },
          { name: 'last sync from Hive', value: <When at={data.synced_at} /> },
          {
            name: 'last publish to Hive',
            value: data.published_at === null ? <span className="dim">never</span> : <When at={data.published_at} />,
          },
          ...(data.lock_warning === null ? [] : [{ name: 'published without a Hive lock', value: <Unlocked why={data.lock_warning} /> }]),
          ...(left === null
            ? [{ name: 'unpublished changes', value: <Behind catalog={catalog} data={data} /> }]
            : [
                { name: 'unpublished changes', value: notYet(left) },
                ...(left.commits === 0 ? [] : [{ name: 'oldest change', value: <When at={left.since} /> }, { name: 'size', value: <Bytes value={left.bytes} /> }]),
              ]),
        ]}
      />
    </>
  );
}

/** Of a table without a key nobody counts changed rows: files tell which partitions differ. */
function Behind({ catalog, data: of }: { catalog: string; data: HiveTableDetail }) {
  const { data, error } = useQuery(publishPreview(catalog, `${of.database}.${of.name}`, of.published_at));
  if (data === undefined) return <span className="dim">{error ? `unknown: ${asProblem(error).message}` : '…'}</span>;
  if (data.differing === 0) return <span className="dim">none: Hive lists the table’s own files</span>;
  return (
    <span className="accent" title="Hive sees writes to a plain table after a publish">
      {data.differing === 1 ? '1 partition differs' : `${count(data.differing)} partitions differ`}
      {data.since !== null && (
        <>
          , the oldest change <When at={data.since} />
        </>
      )}
    </span>
  );
}

function whatToDo({ column_differences: columns }: HiveTableDetail): string {
  const conflicts = columns.filter((column) => column.is_conflict).length;
  return `${many(conflicts, 'column')} below ${conflicts === 1 ? 'needs' : 'need'} a decision: change one side, or set the policy that decides. Meanwhile rows are synced, except in partitions whose new files do not fit.`;
}

function Unlocked({ why }: { why: string }) {
  return (
    <span>
      <Words>{why}</Words> <span className="dim">– the publish went on; a Hive job could have written while the server repointed the metastore</span>
    </span>
  );
}

/** Columns that both sides do not have alike: the conflicts among them are what the note above is about. */
function Columns({ data }: { data: HiveTableDetail }) {
  if (data.column_differences.length === 0) return null;
  return (
    <>
      <b>Columns that differ</b>
      <DataTable
        plain
        name="columns that differ"
        columns={DIFFERENCES}
        rows={data.column_differences}
        id={(row) => row.column + row.what}
        empty={null}
      />
    </>
  );
}

const DIFFERENCES: Column<HiveColumnDifference>[] = [
  { key: 'hive', title: 'In Hive', cell: (row) => <Side column={row.hive} /> },
  { key: 'here', title: 'Here', cell: (row) => <Side column={row.here} /> },
  { key: 'what', title: 'What differs', cell: (row) => <span className="wrap-anywhere">{row.what}</span>, wide: true },
  {
    key: 'decided',
    title: 'Decided by',
    cell: (row) => <span className={row.is_conflict ? 'mono accent' : 'mono'}>{row.decided_by}</span>,
    help: 'The policy that decides; with “ask”, you have to change one side',
  },
  { key: 'since', title: 'Since', cell: (row) => <When at={row.since} /> },
];

function Side({ column }: { column: string | null }) {
  return column === null ? <span className="dim">none</span> : <span className="mono">{column}</span>;
}

function notYet({ rows, commits }: { rows: number; commits: number }): ReactNode {
  if (commits === 0) return <span className="dim">none: Hive is up to date</span>;
  return (
    <span className="accent">
      {many(rows, 'change')} in {many(commits, 'commit')}
    </span>
  );
}

const SAYS: Record<HiveEvent['kind'], string> = {
  added: 'Hive added files',
  new: 'Hive created it',
  rebuilt: 'Hive replaced files',
  dropped: 'Hive dropped it',
  late: 'late write to a superseded directory',
  published: 'published to Hive',
};

const COLUMNS = (catalog: string, table: string, only: (partition: string) => void): Column<HiveEvent>[] => [
  { key: 'at', title: 'When', cell: (row) => <When at={row.at} /> },
  { key: 'kind', title: 'What', cell: (row) => <span className={row.kind === 'published' ? 'accent' : ''}>{SAYS[row.kind]}</span> },
  { key: 'partition', title: 'Partition', cell: (row) => <Partition event={row} only={only} />, wide: true },
  { key: 'files', title: 'Files', cell: (row) => <Count value={row.files} />, right: true },
  { key: 'rows', title: 'Rows', cell: (row) => <Count value={row.rows} />, right: true, help: 'Known for publishes; a sync reads no rows' },
  {
    key: 'snapshot',
    title: 'Snapshot',
    cell: (row) =>
      row.snapshot_id === null ? null : (
        <Link className="mono" to={paths.table(catalog, table, 'history')}>
          {row.snapshot_id}
        </Link>
      ),
    right: true,
    extra: true,
  },
];

function Partition({ event, only }: { event: HiveEvent; only: (partition: string) => void }) {
  if (event.partition === null) return <span className="dim">{many(event.partitions, 'other partition')}</span>;
  if (event.partition === '') return <span className="dim">the whole table</span>;
  const { partition } = event;
  return (
    <Button variant="subtle" size="compact-xs" className="mono" onClick={() => only(partition)} title="Only this partition">
      {partition}
    </Button>
  );
}

function Events({ catalog, hive, table }: { catalog: string; hive: string; table: string }) {
  const [get, set] = useUrlState();
  const partition = get('partition');
  const found = useInfiniteQuery(hiveEvents(catalog, hive, partition));
  const rows = found.data?.pages.flatMap((page) => page.items);
  const known = [...new Set([...(partition === undefined ? [] : [partition]), ...(rows ?? []).map((row) => row.partition)])].filter((item): item is string => !!item);
  return (
    <>
      <div className="row spread">
        <b>Syncs and publishes</b>
        <Select
          aria-label="partition"
          w={240}
          searchable
          value={partition ?? ''}
          onChange={(value) => set({ partition: value ?? undefined })}
          data={[{ value: '', label: 'Every partition' }, ...known.map((item) => ({ value: item, label: item }))]}
        />
      </div>
      <DataTable
        plain
        name="syncs and publishes"
        columns={COLUMNS(catalog, table, (row) => set({ partition: row }))}
        rows={rows}
        error={found.error}
        id={(row) => String(row.id)}
        more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
        empty={
          <Empty title="No syncs or publishes since the upgrade">
            Firn syncs at the table’s interval, or now with the button above.
          </Empty>
        }
      />
    </>
  );
}
