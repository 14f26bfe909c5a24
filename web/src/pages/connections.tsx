import { useQuery } from '@tanstack/react-query';

import { asProblem } from '../api/problem';
import { connectionCheck, connections } from '../api/stream-queries';
import type { Connection } from '../api/types';
import { ActionButton } from '../components/action-button';
import { useWhyNot } from '../components/current-user';
import { DataTable, type Column } from '../components/data-table';
import { When } from '../components/figures';
import { Empty } from '../components/notes';
import { HEALTHY, Mark } from '../components/status-icons';
import { SERVER, type Need } from '../lib/access';
import { many } from '../lib/format';

const NEEDS: Need[] = [{ privilege: 'grant', on: SERVER }];

const COLUMNS: Column<Connection>[] = [
  { key: 'name', title: 'Connection', cell: (row) => <span className="mono">{row.name}</span> },
  { key: 'brokers', title: 'Brokers', cell: (row) => <div className="mono dim wrap-anywhere" style={{ minWidth: 160 }}>{row.brokers.join(', ')}</div>, wide: true },
  { key: 'security', title: 'Security', cell: (row) => [row.security, row.mechanism].filter((part) => part !== null).join(', ') },
  { key: 'user', title: 'User', cell: (row) => (row.username === null ? <span className="dim">none</span> : <span className="mono">{row.username}</span>) },
  { key: 'registry', title: 'Schema registry', cell: (row) => <Registry connection={row} />, extra: true },
  { key: 'result', title: 'Check', cell: (row) => <Result connection={row} /> },
  { key: 'created', title: 'Created', cell: (row) => <When at={row.created_at} />, right: true },
  { key: 'by', title: 'By', cell: (row) => row.created_by ?? <span className="dim">–</span>, extra: true },
  { key: 'act', title: '', cell: (row) => <Check connection={row} />, right: true },
];

/** The clusters of Kafka that tables name; whoever may not see them does not miss them. */
export function Connections() {
  const maySee = useWhyNot()(...NEEDS) === null;
  const { data, error } = useQuery(connections(maySee));
  if (!maySee) return null;
  return (
    <DataTable
      name="connections"
      title="Connections to Kafka"
      columns={COLUMNS}
      rows={data}
      error={error}
      id={(row) => row.name}
      empty={
        <Empty title="No connection to Kafka">
          Tables with a log name one. Create it in a terminal, which asks for the password:{' '}
          <code className="mono">firn connection create kafka main --brokers kafka-1:9092 --security sasl-ssl --username firn</code>
        </Empty>
      }
    />
  );
}

/** The server signs in when somebody asks, and counts what it sees. */
const useCheck = (name: string) => useQuery({ ...connectionCheck(name), enabled: false });

const resultText = ({ brokers, topics, subjects }: { brokers: number; topics: number; subjects: number | null }) =>
  [many(brokers, 'broker'), many(topics, 'topic'), ...(subjects === null ? [] : [many(subjects, 'subject')])].join(', ');

/** Where the schemas of Avro records are. */
function Registry({ connection }: { connection: Connection }) {
  if (connection.registry_url === null) return <span className="dim">none</span>;
  return (
    <div className="mono wrap-anywhere" style={{ minWidth: 140 }}>
      {connection.registry_url}
      {connection.registry_username !== null && <div className="dim">as {connection.registry_username}</div>}
    </div>
  );
}

function Result({ connection }: { connection: Connection }) {
  const { data, error } = useCheck(connection.name);
  return (
    <div role="status" style={{ minWidth: 150 }}>
      {error !== null ? (
        <div className="bad wrap-anywhere">{asProblem(error).message}</div>
      ) : data === undefined ? (
        <span className="dim">not checked</span>
      ) : (
        <Mark look={{ ...HEALTHY, says: resultText(data) }} />
      )}
    </div>
  );
}

function Check({ connection }: { connection: Connection }) {
  const check = useCheck(connection.name);
  return (
    <ActionButton size="compact-xs" variant="default" needs={NEEDS} loading={check.isFetching} onClick={() => void check.refetch()} aria-label={`check ${connection.name}`}>
      Check
    </ActionButton>
  );
}
