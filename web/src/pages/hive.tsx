import { Button, Select, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconRefresh, IconSearch } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useNavigate, useParams } from 'react-router';

import { answered, api } from '../api/client';
import { hiveDatabases, type HiveFilter } from '../api/hive-queries';
import { catalogs } from '../api/queries';
import type { MetastoreDown, HiveState } from '../api/types';
import { ActionButton } from '../components/action-button';
import { useDo } from '../components/confirm-dialog';
import { Choice } from '../components/choice';
import { When } from '../components/figures';
import { Empty, Note } from '../components/notes';
import { Page, Panel } from '../components/panel';
import { Snippet } from '../components/snippet';
import { need, scopeOf } from '../lib/access';
import { paths } from '../lib/paths';
import { useUrlState } from '../lib/url-state';
import { HiveDatabases, useCheckMany } from './hive-databases';
import { HiveList } from './hive-list';
import { RunningOperations } from './operations';

const STATES = [
  { value: 'all', label: 'All' },
  { value: 'hive', label: 'Not upgraded' },
  { value: 'upgrading', label: 'Upgrading' },
  { value: 'upgraded', label: 'Upgraded' },
  { value: 'out_of_sync', label: 'Out of sync' },
  { value: 'blocked', label: 'Blocked' },
];

/** The metastore's tables: which are Firn's already, which can be, which cannot and why. */
export function HivePage() {
  const { catalog = '' } = useParams();
  const { data } = useQuery(catalogs());
  const linked = data?.find((item) => item.name === catalog);
  if (linked?.metastore === null) return <NotLinked catalog={catalog} />;
  return <Linked catalog={catalog} metastore={linked?.metastore ?? ''} away={linked?.metastore_down ?? null} />;
}

function NotLinked({ catalog }: { catalog: string }) {
  return (
    <Page title="Hive">
      <Panel>
        <Empty
          title={`${catalog} is not linked to a Hive Metastore`}
          action={
            <Button component={Link} to={paths.settings()}>
              Catalogs
            </Button>
          }
        >
          Start the server with <span className="mono">--metastore thrift://HOST:9083</span>, or create a catalog that names one. To
          try it on this machine, <span className="mono">firn up</span> brings a metastore of its own.
        </Empty>
        <Snippet label="catalog with a metastore" code="firn catalog create hive --warehouse file:///data/warehouse --metastore thrift://localhost:9083" />
      </Panel>
    </Page>
  );
}

function Linked({ catalog, metastore, away }: { catalog: string; metastore: string; away: MetastoreDown | null }) {
  const [get, set] = useUrlState();
  const [chosen, choose] = useState<Set<string>>(new Set());
  const state = get('state') ?? 'all';
  const find = useDebouncedCallback((text: string) => set({ search: text.trim() }), 250);
  const filter: HiveFilter = {};
  if (state === 'out_of_sync') filter.out_of_sync = true;
  else if (state !== 'all') filter.state = state as HiveState;
  if (get('search') !== undefined) filter.search = get('search') ?? '';
  if (get('database') !== undefined) filter.database = get('database') ?? '';
  const refresh = useDo('cannot read the metastore', () =>
    answered(api.POST('/catalogs/{catalog}/hive/refresh', { params: { path: { catalog } } })),
  );
  return (
    <Page
      title="Hive"
      sub={
        <>
          Tables of <span className="mono">{metastore}</span>
        </>
      }
      actions={
        <>
          <Button component={Link} to={paths.migration(catalog)} variant="default">
            Migration
          </Button>
          <ActionButton variant="default" leftSection={<IconRefresh size={14} />} needs={need(scopeOf(catalog), 'maintain')} loading={refresh.isPending} onClick={() => refresh.mutate()}>
            Refresh
          </ActionButton>
          <UpgradeChosen catalog={catalog} chosen={chosen} />
        </>
      }
    >
      {away !== null && (
        <Note
          tone="bad"
          title={
            <>
              The metastore stopped answering <When at={away.since} />; this is what it held then
            </>
          }
        >
          {away.reason}
        </Note>
      )}
      <RunningOperations catalog={catalog} />
      <HiveDatabases catalog={catalog} />
      <div className="row row-wrap">
        <Choice label="state" value={state} set={(value) => set({ state: value === 'all' ? undefined : value })} options={STATES} />
        <DatabaseChoice catalog={catalog} />
        <TextInput
          aria-label="search by name"
          placeholder="Part of a name"
          leftSection={<IconSearch size={14} />}
          defaultValue={get('search') ?? ''}
          onChange={(event) => find(event.currentTarget.value)}
        />
      </div>
      <HiveList catalog={catalog} filter={filter} select={{ chosen, set: choose }} />
    </Page>
  );
}

function DatabaseChoice({ catalog }: { catalog: string }) {
  const [get, set] = useUrlState();
  const { data } = useQuery(hiveDatabases(catalog));
  const names = data?.map((item) => item.name) ?? [];
  const chosen = get('database');
  const known = chosen === undefined || names.includes(chosen) ? names : [...names, chosen];
  return (
    <Select
      aria-label="database"
      w={160}
      searchable
      value={chosen ?? ''}
      onChange={(value) => set({ database: value ?? undefined })}
      data={[{ value: '', label: 'Every database' }, ...known.map((name) => ({ value: name, label: name }))]}
    />
  );
}

interface UpgradeChosenProps {
  catalog: string;
  chosen: Set<string>;
}

/** One chosen table opens its wizard; of several the report is made first. */
function UpgradeChosen({ catalog, chosen }: UpgradeChosenProps) {
  const navigate = useNavigate();
  const names = [...chosen];
  const only = names.length === 1 ? names[0] : undefined;
  const check = useCheckMany(catalog);
  return (
    <ActionButton
      disabledReason={names.length === 0 ? 'Select tables first.' : null}
      loading={check.isPending}
      onClick={() => (only === undefined ? check.mutate(names) : void navigate(paths.upgrade(catalog, only)))}
    >
      {names.length > 1 ? `Upgrade ${names.length} tables` : 'Upgrade'}
    </ActionButton>
  );
}
