import { Link } from 'react-router';

import type { Optimizer } from '../api/types';
import { DataTable, type Column } from '../components/data-table';
import { When, useNow } from '../components/figures';
import { Mark, HEALTHY, NEVER_RAN, WARNING } from '../components/marks';
import { useOptimizers, useSeesServer } from '../components/me';
import { Empty } from '../components/notes';
import { Page, Panel } from '../components/panel';
import { Snippet } from '../components/snippet';
import { secondsBetween } from '../lib/format';
import { paths } from '../lib/paths';

const SILENT_SECONDS = 45;

const COLUMNS: Column<Optimizer>[] = [
  { key: 'host', title: 'Host', cell: (one) => <span className="mono">{`${one.host}:${one.pid}`}</span> },
  { key: 'state', title: 'State', cell: (one) => <State optimizer={one} />, wide: true },
  { key: 'group', title: 'Group', cell: (one) => <span className="mono">{one.group}</span> },
  { key: 'spark', title: 'Spark', cell: (one) => <Fact optimizer={one} names={['spark_version', 'spark']} /> },
  { key: 'master', title: 'Master', cell: (one) => <Fact optimizer={one} names={['master']} /> },
  { key: 'memory', title: 'Memory', cell: (one) => <Fact optimizer={one} names={['memory', 'driver_memory']} />, right: true },
  { key: 'version', title: 'Firn', cell: (one) => <span className="mono">{one.version}</span>, extra: true },
  { key: 'id', title: 'Id', cell: (one) => <span className="mono dim">{one.id}</span>, extra: true },
  { key: 'since', title: 'Since', cell: (one) => <When at={one.registered_at} />, right: true },
  { key: 'seen', title: 'Last heard', cell: (one) => <When at={one.last_seen_at} />, right: true },
];

/** The processes that run jobs. */
export function OptimizersPage() {
  const { data, error } = useOptimizers();
  if (!useSeesServer()) {
    return (
      <Page title="Optimizers">
        <Panel>
          <Empty title="You may not see the optimizers">They work on every table: it takes the privilege “list” on the server.</Empty>
        </Panel>
      </Page>
    );
  }
  return (
    <Page title="Optimizers" sub="PySpark processes that take jobs from this server, run them and report. Stopping one loses nothing.">
      <DataTable
        name="optimizers"
        columns={COLUMNS}
        rows={data}
        error={error}
        id={(one) => one.id}
        empty={<Empty title="No optimizer runs">Tables stay readable and writable; merges and rewrites wait until one comes. Start one as shown below.</Empty>}
      />
      <Panel title="Start one more">
        <div className="stack">
          <Snippet label="local optimizer" code={`firn optimizer --server ${location.origin}`} />
          <span className="dim">
            Runs Spark on the machine's own cores and needs Java 17 or 21. With{' '}
            <span className="mono">--group NAME</span> it serves only tables whose policy says{' '}
            <span className="mono">firn.optimize.group=NAME</span>.
          </span>
        </div>
      </Panel>
    </Page>
  );
}

function State({ optimizer }: { optimizer: Optimizer }) {
  const now = useNow();
  if (secondsBetween(optimizer.last_seen_at, now) > SILENT_SECONDS) return <Mark look={{ ...WARNING, says: 'silent' }} />;
  if (optimizer.draining) return <Mark look={{ ...NEVER_RAN, says: 'takes no more jobs' }} />;
  if (optimizer.job_id === null) return <Mark look={{ ...HEALTHY, says: 'waits for work' }} />;
  return (
    <Mark look={{ ...HEALTHY, says: 'busy' }}>
      runs <Link className="inline" to={paths.job(optimizer.job_id)}>a job</Link>
    </Mark>
  );
}

function Fact({ optimizer, names }: { optimizer: Optimizer; names: string[] }) {
  const value = names.map((name) => optimizer.facts[name]).find((one) => one !== undefined && one !== null);
  if (typeof value !== 'string' && typeof value !== 'number') return <span className="dim">–</span>;
  return <span className="mono">{value}</span>;
}
