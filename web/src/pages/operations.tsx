import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { batch as batchQuery } from '../api/hive-queries';
import { operations } from '../api/queries';
import type { Batch, Operation } from '../api/types';
import { Bar, paceText } from '../components/bar';
import { useNow } from '../components/figures';
import { OutcomeMark } from '../components/status-icons';
import { Panel } from '../components/panel';
import { exact, many, secondsBetween } from '../lib/format';
import { paths } from '../lib/paths';
import { BatchActions, OperationActions } from './operation-actions';

/** Upgrades, downgrades and imports that run or are paused: they go on whoever looks. Many that were asked for at once are one. */
export function RunningOperations({ catalog }: { catalog: string }) {
  const { data } = useQuery(operations(catalog));
  const unfinished = data?.items.filter((item) => item.ended_at === null) ?? [];
  const alone = unfinished.filter((item) => item.batch === null);
  const batches = [...new Set(unfinished.map((item) => item.batch))].filter((item) => item !== null);
  if (unfinished.length === 0) return null;
  return (
    <Panel title="Running operations">
      <div className="stack">
        {batches.map((id) => (
          <RunningBatch key={id} catalog={catalog} id={id} />
        ))}
        {alone.map((item) => (
          <div key={item.id} className="row">
            <div className="grow">
              {item.kind} of <span className="mono wrap-anywhere">{item.target}</span>
              <OperationBar operation={item} />
            </div>
            {item.kind !== 'import' && <OperationActions operation={item} />}
            <Button component={Link} to={placeOf(catalog, item)} variant="default" size="compact-xs">
              Watch
            </Button>
          </div>
        ))}
      </div>
    </Panel>
  );
}

/** Where an operation is shown best. */
function placeOf(catalog: string, operation: Operation): string {
  if (operation.kind === 'import') return paths.imports(catalog, operation.id);
  return operation.kind === 'downgrade' ? paths.table(catalog, operation.target) : paths.upgrade(catalog, operation.target, operation.id);
}

function RunningBatch({ catalog, id }: { catalog: string; id: string }) {
  const { data } = useQuery(batchQuery(catalog, id));
  if (data === undefined) return null;
  return (
    <div className="row">
      <div className="grow">
        <BatchBar batch={data} />
      </div>
      <BatchActions catalog={catalog} batch={data} />
      <Button component={Link} to={paths.upgradeMany(catalog, data.kind === 'check' ? { check: id } : { batch: id })} variant="default" size="compact-xs">
        Watch
      </Button>
    </div>
  );
}

const ORDER = ['running', 'waiting', 'paused', 'upgraded', 'eligible', 'blocked', 'failed', 'canceled'];

/** How many of many have ended, and where the others stand. */
export function BatchBar({ batch }: { batch: Batch }) {
  const what = batch.kind === 'check' ? 'check' : 'upgrade';
  return (
    <div>
      <span>{`${what} of ${many(batch.tables, 'table')}`}</span>
      <Bar done={batch.tables - batch.unfinished} total={batch.tables} label={`${what} of ${many(batch.tables, 'table')}`} />
      <div className="row row-wrap" style={{ fontSize: 12.5, marginTop: 5, gap: 14 }}>
        {ORDER.filter((item) => batch.outcomes[item]).map((item) => (
          <OutcomeMark key={item} outcome={item}>
            <span>
              {exact(batch.outcomes[item] ?? 0)} <span className="dim">{item}</span>
            </span>
          </OutcomeMark>
        ))}
      </div>
    </div>
  );
}

/** How far an operation is, at which speed, and how long it will take: both are those of its phase. */
export function OperationBar({ operation, thin = false }: { operation: Operation; thin?: boolean }) {
  const now = useNow();
  const since = operation.phase_at ?? operation.created_at;
  const stands = operation.status === 'paused' ? operation.updated_at : Math.max(now, Date.parse(operation.updated_at));
  const elapsed = secondsBetween(since, operation.ended_at ?? stands);
  const { done, total, unit, message } = operation;
  const phase = operation.phase.replace('-', ' ');
  const pace = total > 0 ? paceText(done, total, unit, operation.status === 'paused' ? 0 : elapsed) : '';
  const where = operation.status === 'paused' ? `paused while ${phase}` : phase;
  return (
    <div>
      <Bar done={done} total={total} label={`${operation.kind} of ${operation.target}`} thin={thin} />
      <div className="dim" style={{ fontSize: 12.5, marginTop: 5 }}>
        {[message === '' ? where : `${where}: ${message}`, pace].filter((part) => part !== '').join(' · ')}
      </div>
    </div>
  );
}
