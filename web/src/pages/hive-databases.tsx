import { useMutation, useQuery } from '@tanstack/react-query';
import { notifications } from '@mantine/notifications';
import { Link, useNavigate } from 'react-router';

import { answered, api } from '../api/client';
import { asProblem } from '../api/problem';
import { hiveDatabases } from '../api/hive-queries';
import type { HiveDatabase } from '../api/types';
import { ActionButton } from '../components/action-button';
import { DataTable, type Column } from '../components/data-table';
import { Count } from '../components/figures';
import { Mark, WARNING } from '../components/status-icons';
import { need, scopeOf } from '../lib/access';
import { exact, many } from '../lib/format';
import { paths } from '../lib/paths';
import styles from './upgrade.module.css';

/** Databases of the metastore at a glance; every number leads to its tables. */
export function HiveDatabases({ catalog }: { catalog: string }) {
  const { data, error } = useQuery(hiveDatabases(catalog));
  if (data?.length === 0) return null;
  return <DataTable name="databases" columns={columns(catalog)} rows={data} error={error} id={(row) => row.name} empty={null} title="Databases" />;
}

const eligible = (row: HiveDatabase): number => row.tables - row.upgraded - row.blocked;

function columns(catalog: string): Column<HiveDatabase>[] {
  const to = (database: HiveDatabase, state?: string) =>
    `${paths.hive(catalog)}?${new URLSearchParams({ database: database.name, ...(state === undefined ? {} : { state }) }).toString()}`;
  return [
    {
      key: 'name',
      title: 'Database',
      cell: (row) => (
        <Link to={to(row)} className={`mono truncate ${styles.database}`} title={row.name}>
          {row.name}
        </Link>
      ),
      wide: true,
    },
    { key: 'out_of_sync', title: 'Out of sync', cell: (row) => <OutOfSync database={row} to={to(row, 'out_of_sync')} />, right: true, help: 'Upgraded tables that differ from Hive' },
    { key: 'upgraded', title: 'Upgraded', cell: (row) => <Number value={row.upgraded} to={to(row, 'upgraded')} />, right: true },
    { key: 'hive', title: 'Not upgraded', cell: (row) => <Number value={eligible(row)} to={to(row, 'hive')} />, right: true, help: 'Tables that look upgradable in the metastore' },
    { key: 'blocked', title: 'Blocked', cell: (row) => <Number value={row.blocked} to={to(row, 'blocked')} />, right: true },
    { key: 'tables', title: 'Tables', cell: (row) => <Count value={row.tables} />, right: true },
    { key: 'act', title: '', cell: (row) => <UpgradeDatabase catalog={catalog} database={row} />, right: true },
  ];
}

function Number({ value, to }: { value: number; to: string }) {
  return value === 0 ? <span className="dim">0</span> : <Link to={to}>{exact(value)}</Link>;
}

function OutOfSync({ database, to }: { database: HiveDatabase; to: string }) {
  if (database.out_of_sync === 0) return <span className="dim">0</span>;
  return (
    <Mark look={{ ...WARNING, says: 'Out of sync' }}>
      <Link to={to}>{exact(database.out_of_sync)}</Link>
    </Mark>
  );
}

function UpgradeDatabase({ catalog, database }: { catalog: string; database: HiveDatabase }) {
  const check = useCheckMany(catalog);
  return (
    <ActionButton
      size="compact-xs"
      variant="default"
      needs={need(scopeOf(catalog, [database.name]), 'read')}
      loading={check.isPending}
      disabledReason={eligible(database) === 0 ? 'No table is left to upgrade.' : null}
      onClick={() => check.mutate([`${database.name}.*`])}
      aria-label={`Check all ${many(database.tables - database.upgraded, 'table')} of ${database.name}`}
    >
      Check all
    </ActionButton>
  );
}

/** Have names or patterns looked at, and go to the report. */
export function useCheckMany(catalog: string) {
  const navigate = useNavigate();
  return useMutation({
    mutationFn: (tables: string[]) =>
      answered(
        api.POST('/catalogs/{catalog}/hive/upgrade', {
          params: { path: { catalog } },
          body: { tables, keys: {}, properties: {}, dry_run: true },
        }),
      ),
    onSuccess: (started) => started.batch !== null && void navigate(paths.upgradeMany(catalog, { check: started.batch.id })),
    onError: (error) => {
      const problem = asProblem(error);
      notifications.show({ color: 'red', title: `cannot check: ${problem.message}`, message: problem.hint ?? '', autoClose: 10_000 });
    },
  });
}
