import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { operation as operationQuery, table as tableQuery } from '../api/queries';
import type { Operation } from '../api/types';
import { Count, Span, useNow } from '../components/figures';
import { OperationMark } from '../components/status-icons';
import { Note, ProblemNote } from '../components/notes';
import { Facts, Panel } from '../components/panel';
import { secondsBetween } from '../lib/format';
import { paths } from '../lib/paths';
import { OperationBar } from './operations';
import { CheckKeys, keysFact } from './table/keys';
import { HowToUse } from './connect-snippets';
import { OperationActions } from './operation-actions';

interface UpgradeProgressProps {
  id: string;
  catalog: string;
  table: string;
}

/** An upgrade that runs or has ended; it goes on whoever looks. */
export function UpgradeProgress({ id, catalog, table }: UpgradeProgressProps) {
  const { data: operation, error } = useQuery(operationQuery(id));
  if (operation === undefined) return <Panel>{error ? <ProblemNote error={error} /> : <span className="dim">…</span>}</Panel>;
  if (operation.status === 'succeeded') return <Done operation={operation} catalog={catalog} />;
  return (
    <Panel title={<OperationMark status={operation.status} />} aside={operation.ended_at === null ? <OperationActions operation={operation} /> : null}>
      <div className="stack">
        {operation.ended_at === null && (
          <>
            <OperationBar operation={operation} />
            <span className="dim">
              {operation.status === 'paused'
                ? 'It stays paused, even across server restarts. Resuming lists and reads the files again: they may have changed.'
                : 'Closing this page does not stop it; Hive and Home list it.'}
            </span>
          </>
        )}
        {operation.ended_at !== null && (
          <>
            <Note
              tone={operation.status === 'failed' ? 'bad' : 'info'}
              title={operation.status === 'failed' ? (operation.error ?? 'The upgrade failed.') : 'The upgrade was canceled.'}
            >
              {operation.hint} The Hive table is as it was; nothing of the upgrade is left.
            </Note>
            <Button component={Link} to={paths.upgrade(catalog, table)} style={{ alignSelf: 'flex-start' }}>
              Check again
            </Button>
          </>
        )}
      </div>
    </Panel>
  );
}

function Done({ operation, catalog }: { operation: Operation; catalog: string }) {
  const { table, files, rows } = operation.result as { table?: string; files?: number; rows?: number };
  const name = table ?? operation.target;
  const { data } = useQuery(tableQuery(catalog, name));
  const now = useNow();
  const took = secondsBetween(operation.created_at, operation.ended_at ?? now);
  return (
    <>
      <Panel title={<OperationMark status="succeeded" />}>
        <div className="row row-wrap spread">
          <Facts
            facts={[
              { name: 'table', value: <span className="mono">{`${catalog}.${name}`}</span> },
              { name: 'rows', value: <Count value={rows} /> },
              { name: 'files registered', value: <Count value={files} />, note: 'none moved or rewritten' },
              { name: 'took', value: <Span seconds={took} /> },
              ...(data?.kind === 'keyed' ? [keysFact(data)] : []),
            ]}
          />
          <div className="row">
            {data?.kind === 'keyed' && <CheckKeys table={data} />}
            <Button component={Link} to={paths.table(catalog, name)}>
              Open the table
            </Button>
          </div>
        </div>
      </Panel>
      {data && (
        <Panel title="How to read and write it">
          <HowToUse table={data} />
        </Panel>
      )}
    </>
  );
}
