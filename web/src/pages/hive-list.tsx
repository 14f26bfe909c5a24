import { Button } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import { Link } from 'react-router';

import { type HiveFilter, hiveTables } from '../api/hive-queries';
import type { HiveRow } from '../api/types';
import { DataTable, type Column } from '../components/data-table';
import { Count, When } from '../components/figures';
import { ListedTable } from '../components/job-parts';
import { HiveMark, Mark, WARNING } from '../components/status-icons';
import { Empty } from '../components/notes';
import { paths } from '../lib/paths';

export const hiveName = (row: HiveRow): string => `${row.database}.${row.name}`;

function columns(catalog: string): Column<HiveRow>[] {
  return [
    { key: 'name', title: 'Hive table', cell: (row) => <ListedTable table={hiveName(row)} /> },
    { key: 'state', title: 'State', cell: (row) => <State row={row} catalog={catalog} />, wide: true },
    { key: 'format', title: 'Format', cell: (row) => row.format },
    { key: 'partitions', title: 'Partitioned by', cell: (row) => <Partitions row={row} /> },
    { key: 'columns', title: 'Columns', cell: (row) => <Count value={row.columns} />, right: true },
    { key: 'location', title: 'Location', cell: (row) => <span className="mono dim">{row.location}</span>, extra: true },
    { key: 'synced', title: 'Synced', cell: (row) => <When at={row.synced_at} />, right: true },
    { key: 'seen', title: 'Seen', cell: (row) => <When at={row.seen_at} />, right: true, extra: true },
    { key: 'act', title: '', cell: (row) => <Action row={row} catalog={catalog} />, right: true },
  ];
}

/** Where a row leads: what stands in a table's way, its wizard, or the table that it has become. */
function placeOf(catalog: string, row: HiveRow): string {
  if (row.state === 'blocked') return paths.whyNotUpgraded(catalog, hiveName(row));
  if (row.upgraded_to === null) return paths.upgrade(catalog, hiveName(row), row.operation_id);
  return paths.table(catalog, row.upgraded_to, row.drift === null ? undefined : 'hive');
}

function Partitions({ row }: { row: HiveRow }) {
  const columns = row.partition_columns.join(', ');
  return <span className={row.partitioned ? 'mono' : 'dim'}>{row.partitioned ? columns : 'not partitioned'}</span>;
}

/** As much of a sentence as leaves room for what stands beside it; all of it on hover, and behind the row. */
const WORDS = 'clamp(110px, 40vw - 290px, 460px)';

function State({ row, catalog }: { row: HiveRow; catalog: string }) {
  if (row.drift !== null) {
    return (
      <span className="row" style={{ gap: 8 }}>
        <Mark look={{ ...WARNING, says: 'Out of sync' }} />
        <UpgradedTo row={row} catalog={catalog} />
        <span className="dim">
          since <When at={row.drift_since} />
        </span>
        <span className="dim truncate" style={{ maxWidth: WORDS }} title={row.drift}>
          {row.drift}
        </span>
      </span>
    );
  }
  if (row.state === 'blocked') {
    return (
      <span className="row" style={{ gap: 8 }}>
        <HiveMark state="blocked" />
        <span className="dim truncate" style={{ maxWidth: WORDS }} title={row.blockers.map((blocker) => blocker.message).join('; ')}>
          {row.blockers[0]?.message}
        </span>
      </span>
    );
  }
  if (row.upgraded_to === null) return <HiveMark state={row.state} />;
  return (
    <span className="row" style={{ gap: 8 }}>
      <HiveMark state={row.state} />
      <UpgradedTo row={row} catalog={catalog} />
    </span>
  );
}

/** What it has become, where that has another name. */
function UpgradedTo({ row, catalog }: { row: HiveRow; catalog: string }) {
  return (
    row.upgraded_to !== null &&
    row.upgraded_to !== hiveName(row) && (
      <Link to={paths.table(catalog, row.upgraded_to)} className="mono">
        {row.upgraded_to}
      </Link>
    )
  );
}

function Action({ row, catalog }: { row: HiveRow; catalog: string }) {
  const to = placeOf(catalog, row);
  const small = { size: 'compact-xs', variant: 'default' } as const;
  if (row.state === 'blocked') {
    return (
      <Button component={Link} to={to} {...small} aria-label={`See why ${hiveName(row)} cannot be upgraded, and what to do`}>
        See why
      </Button>
    );
  }
  if (row.state === 'hive') {
    return (
      <Button component={Link} to={to} {...small} aria-label={`Upgrade ${hiveName(row)}`}>
        Upgrade
      </Button>
    );
  }
  return (
    <Button component={Link} to={to} {...small}>
      {row.state === 'upgrading' ? 'Watch' : 'Open'}
    </Button>
  );
}

interface HiveListProps {
  catalog: string;
  filter: HiveFilter;
  select?: { chosen: ReadonlySet<string>; set: (chosen: Set<string>) => void };
}

/** Hive's tables as Firn's index has them. */
export function HiveList({ catalog, filter, select }: HiveListProps) {
  const found = useInfiniteQuery(hiveTables(catalog, filter));
  const rows = found.data?.pages.flatMap((page) => page.items);
  const { hasNextPage, isFetching, fetchNextPage } = found;
  // A filter may leave a page with nothing in it: the next one may have something.
  useEffect(() => {
    if (rows?.length === 0 && hasNextPage && !isFetching) void fetchNextPage();
  }, [rows?.length, hasNextPage, isFetching, fetchNextPage]);
  return (
    <DataTable
      name="Hive tables"
      columns={columns(catalog)}
      rows={rows}
      error={found.error}
      id={hiveName}
      link={(row) => placeOf(catalog, row)}
      select={select && { ...select, can: (row) => row.state === 'hive' }}
      more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
      empty={
        Object.keys(filter).length > 0 ? (
          <Empty title="No matching Hive tables">Choose another database, state or search text.</Empty>
        ) : (
          <Empty title="No Hive tables yet">
            Firn lists the metastore every minute; press Refresh to list it now.
          </Empty>
        )
      }
    />
  );
}
