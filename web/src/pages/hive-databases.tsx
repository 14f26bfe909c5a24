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
  return <DataTable name="databases" columns={columns(catalog)} rows={data} error={error} id={(one) => one.name} empty={null} title="Databases" />;
}

const eligible = (one: HiveDatabase): number => one.tables - one.upgraded - one.blocked;

function columns(catalog: string): Column<HiveDatabase>[] {
  const to = (one: HiveDatabase, state?: string) =>
    `${paths.hive(catalog)}?${new URLSearchParams({ database: one.name, ...(state === undefined ? {} : { state }) }).toString()}`;
  return [
    {
      key: 'name',
      title: 'Database',
      cell: (one) => (
        <Link to={to(one)} className={`mono truncate ${styles.database}`} title={one.name}>
          {one.name}
        </Link>
      ),
      wide: true,
    },
    { key: 'out_of_sync', title: 'Out of sync', cell: (one) => <OutOfSync one={one} to={to(one, 'out_of_sync')} />, right: true, help: 'Upgraded tables that differ from Hive' },
    { key: 'upgraded', title: 'Upgraded', cell: (one) => <Number value={one.upgraded} to={to(one, 'upgraded')} />, right: true },
    { key: 'hive', title: 'Not upgraded', cell: (one) => <Number value={eligible(one)} to={to(one, 'hive')} />, right: true, help: 'Tables that look upgradable in the metastore' },
    { key: 'blocked', title: 'Blocked', cell: (one) => <Number value={one.blocked} to={to(one, 'blocked')} />, right: true },
    { key: 'tables', title: 'Tables', cell: (one) => <Count value={one.tables} />, right: true },
    { key: 'act', title: '', cell: (one) => <UpgradeDatabase catalog={catalog} one={one} />, right: true },
  ];
}

function Number({ value, to }: { value: number; to: string }) {
  return value === 0 ? <span className="dim">0</span> : <Link to={to}>{exact(value)}</Link>;
}

function OutOfSync({ one, to }: { one: HiveDatabase; to: string }) {
  if (one.out_of_sync === 0) return <span className="dim">0</span>;
  return (
    <Mark look={{ ...WARNING, says: 'Out of sync' }}>
      <Link to={to}>{exact(one.out_of_sync)}</Link>
    </Mark>
  );
}

function UpgradeDatabase({ catalog, one }: { catalog: string; one: HiveDatabase }) {
  const check = useCheckMany(catalog);
  return (
    <ActionButton
      size="compact-xs"
      variant="default"
      needs={need(scopeOf(catalog, [one.name]), 'read')}
      loading={check.isPending}
      disabledReason={eligible(one) === 0 ? 'No table is left to upgrade.' : null}
      onClick={() => check.mutate([`${one.name}.*`])}
      aria-label={`Check all ${many(one.tables - one.upgraded, 'table')} of ${one.name}`}
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
