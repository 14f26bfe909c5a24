import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { operations } from '../api/queries';
import type { Operation } from '../api/types';
import { Bar, paceText } from '../components/bar';
import { useNow } from '../components/figures';
import { Panel } from '../components/panel';
import { secondsBetween } from '../lib/format';
import { paths } from '../lib/paths';

/** Upgrades and imports that run now: they go on whoever looks. */
export function RunningOperations({ catalog }: { catalog: string }) {
  const { data } = useQuery(operations(catalog));
  const running = data?.items.filter((one) => one.status === 'running') ?? [];
  if (running.length === 0) return null;
  return (
    <Panel title="What runs">
      <div className="stack">
        {running.map((one) => (
          <div key={one.id} className="row">
            <div className="grow">
              <span className="mono">{one.target}</span>
              <OperationBar operation={one} />
            </div>
            <Button component={Link} to={one.kind === 'import' ? paths.imports(catalog, one.id) : paths.upgrade(catalog, one.target, one.id)} variant="default">
              Watch
            </Button>
          </div>
        ))}
      </div>
    </Panel>
  );
}

/** How far an operation is, at which speed, and how long it will take. */
export function OperationBar({ operation }: { operation: Operation }) {
  const now = useNow();
  const elapsed = secondsBetween(operation.created_at, operation.ended_at ?? Math.max(now, Date.parse(operation.updated_at)));
  const { done, total, unit, phase } = operation;
  const pace = total > 0 ? paceText(done, total, unit, elapsed) : '';
  return (
    <div>
      <Bar done={done} total={total} label={`${operation.kind} of ${operation.target}`} />
      <div className="dim" style={{ fontSize: 12.5, marginTop: 5 }}>
        {[phase, pace].filter((part) => part !== '').join(' · ')}
      </div>
    </div>
  );
}
