import { Button, Modal, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';
import { Link } from 'react-router';

import { answered, api } from '../api/client';
import { catalogs } from '../api/queries';
import type { BackgroundTask, Catalog } from '../api/types';
import { ActionButton } from '../components/action-button';
import { DataTable, type Column } from '../components/data-table';
import { Span, When } from '../components/figures';
import { InTerminal } from '../components/in-terminal';
import { BROKEN, HEALTHY, Mark, NEVER_RAN } from '../components/status-icons';
import { useMe, usePulse, useSeesServer } from '../components/current-user';
import { Empty, ProblemNote } from '../components/notes';
import { Facts, Page, Panel } from '../components/panel';
import { SERVER, type Need } from '../lib/access';
import { span } from '../lib/format';
import { paths } from '../lib/paths';
import { taskTitle } from '../lib/tasks';
import { firn } from '../lib/terminal';
import { Clusters } from './clusters';
import { Connections } from './connections';
import { Retention } from './retention';

const CATALOGS: Column<Catalog>[] = [
  { key: 'name', title: 'Catalog', cell: (row) => <span className="mono">{row.name}</span> },
  { key: 'warehouse', title: 'Warehouse', cell: (row) => <div className="mono dim wrap-anywhere" style={{ minWidth: 200 }}>{row.warehouse}</div>, wide: true },
  {
    key: 'metastore',
    title: 'Hive Metastore',
    cell: (row) =>
      row.metastore === null ? (
        <span className="dim">not linked</span>
      ) : (
        <Link className="mono" to={paths.hive(row.name)}>
          {row.metastore}
        </Link>
      ),
  },
  { key: 'retention', title: 'Dropped tables kept', cell: (row) => <Retention catalog={row} /> },
  { key: 'created', title: 'Created', cell: (row) => <When at={row.created_at} />, right: true },
  {
    key: 'import',
    title: '',
    cell: (row) => (
      <>
        <Button component={Link} to={paths.policies(row.name)} variant="subtle" size="compact-xs" aria-label={`Policies of ${row.name}`}>
          Policies
        </Button>
        <Button component={Link} to={paths.imports(row.name)} variant="subtle" size="compact-xs" aria-label={`Import tables into ${row.name}`}>
          Import tables…
        </Button>
      </>
    ),
    right: true,
  },
];

const CREATE: Need[] = [{ privilege: 'create', on: SERVER }];

const TASKS: Column<BackgroundTask>[] = [
  { key: 'name', title: 'Task', cell: (task) => taskTitle(task.name) },
  { key: 'state', title: 'State', cell: (row) => <TaskState task={row} /> },
  { key: 'does', title: 'Description', cell: (row) => <div className="wrap-anywhere" style={{ minWidth: 'min(280px, 45vw)' }}>{row.does}</div> },
  { key: 'status', title: 'Last result', cell: (row) => <Outcome task={row} />, wide: true },
  { key: 'every', title: 'Every', cell: (row) => span(row.every_seconds), right: true },
  { key: 'took', title: 'Duration', cell: (row) => <Span seconds={row.last_seconds} />, right: true },
  { key: 'at', title: 'Last run', cell: (row) => <When at={row.last_at} />, right: true },
];

function TaskState({ task }: { task: BackgroundTask }) {
  if (task.error !== null) return <Mark look={{ ...BROKEN, says: 'fails' }} />;
  return <Mark look={task.last_at === null ? NEVER_RAN : HEALTHY} />;
}

function Outcome({ task }: { task: BackgroundTask }) {
  const text = task.error ?? task.status ?? '';
  return (
    <div className={`wrap-anywhere ${task.error === null ? 'dim' : 'bad'}`} style={{ minWidth: 200 }}>
      {text}
    </div>
  );
}

/** Catalogs, metastores and how the server itself is. */
export function SettingsPage() {
  const found = useQuery(catalogs());
  const { data: beat, error } = usePulse();
  const { access } = useMe();
  const seesServer = useSeesServer();
  const [creating, { open, close }] = useDisclosure(false);
  return (
    <Page title="Settings">
      <DataTable
        name="catalogs"
        title="Catalogs"
        aside={
          <ActionButton variant="subtle" size="compact-xs" leftSection={<IconPlus size={13} />} needs={CREATE} onClick={open}>
            Create catalog
          </ActionButton>
        }
        columns={CATALOGS}
        rows={found.data}
        error={found.error}
        id={(row) => row.name}
        link={(row) => paths.home(row.name)}
        empty={<Empty title="No catalog">Create one: a name and a location for its tables.</Empty>}
      />
      <Clusters />
      <Connections />
      {seesServer && (
        <DataTable
          name="background tasks"
          title="Background tasks"
          aside={beat?.health && <span className="dim">{beat.health.leads ? 'run by this server' : 'another server runs them now'}</span>}
          columns={TASKS}
          rows={beat?.health?.tasks}
          error={error}
          id={(row) => row.name}
          empty={<Empty title="No background tasks" />}
        />
      )}
      {beat?.health && (
        <Panel title="Server">
          <Facts
            facts={[
              { name: 'version', value: <span className="mono">{beat.health.version}</span> },
              { name: 'database', value: <span className="mono">{beat.health.database}</span> },
              { name: 'access', value: access ? 'by roles' : <Mark look={{ ...NEVER_RAN, says: 'no access control' }} /> },
              { name: 'address', value: <span className="mono">{location.origin}</span> },
              { name: 'API', value: <a href="/docs">/docs</a> },
              { name: 'metrics', value: <a href="/metrics">/metrics</a>, note: 'for Prometheus, as the job firn' },
              { name: 'dashboard', value: <Download file="firn-grafana.json" />, note: 'for Grafana' },
              { name: 'alerts', value: <Download file="firn.rules.yml" />, note: 'for Prometheus' },
            ]}
          />
        </Panel>
      )}
      <CreateCatalog opened={creating} close={close} />
    </Page>
  );
}

const Download = ({ file }: { file: string }) => (
  <a href={`/monitoring/${file}`} download>
    {file}
  </a>
);

function CreateCatalog({ opened, close }: { opened: boolean; close: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [warehouse, setWarehouse] = useState('');
  const [metastore, setMetastore] = useState('');
  const create = useMutation({
    mutationFn: () =>
      answered(api.POST('/catalogs', { body: { name, warehouse, metastore: metastore === '' ? null : metastore } })),
    onSuccess: async () => {
      await queries.invalidateQueries();
      close();
    },
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    create.mutate();
  };
  const missing = name === '' ? 'Enter a name.' : warehouse === '' ? 'Enter a location for its tables.' : null;
  return (
    <Modal opened={opened} onClose={close} title="Create catalog" closeButtonProps={{ 'aria-label': 'close' }}>
      <form onSubmit={submit} className="stack">
        <TextInput label="Name" description="Engines see it as the warehouse parameter" value={name} onChange={(event) => setName(event.currentTarget.value)} data-autofocus />
        <TextInput label="Warehouse" placeholder="file:///data/warehouse" description="Where new tables go" value={warehouse} onChange={(event) => setWarehouse(event.currentTarget.value)} />
        <TextInput label="Hive Metastore" placeholder="thrift://localhost:9083" description="Optional: lists its tables for upgrade" value={metastore} onChange={(event) => setMetastore(event.currentTarget.value)} />
        {missing === null && <InTerminal command={firn('catalog create', [name], { warehouse, metastore })} />}
        {create.error && <ProblemNote error={create.error} />}
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <ActionButton type="submit" loading={create.isPending} disabledReason={missing}>
            Create
          </ActionButton>
        </div>
      </form>
    </Modal>
  );
}
