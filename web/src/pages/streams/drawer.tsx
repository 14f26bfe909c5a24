import { Drawer } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { stream as streamQuery, streamLog } from '../../api/stream-queries';
import type { Stream } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { EngineName } from '../../components/engine-name';
import { Count, When } from '../../components/figures';
import { TableLink } from '../../components/job-parts';
import { Empty, ProblemNote, Words } from '../../components/notes';
import { Facts } from '../../components/panel';
import { StreamMark } from '../../components/stream-mark';
import { clock, moment } from '../../lib/format';
import { attemptEngine, engineOf, positionLines, positionText } from '../../lib/streams';
import styles from '../job/job.module.css';

type Attempt = Stream['attempts'][number];

const ATTEMPTS: Column<Attempt>[] = [
  { key: 'number', title: 'Attempt', cell: (row) => <Count value={row.number} /> },
  { key: 'optimizer', title: 'Runs on', cell: (row) => <span className="mono">{row.optimizer}</span> },
  { key: 'engine', title: 'Engine', cell: (row) => <span title={row.engine_reason ?? undefined}>{attemptEngine(row)?.name ?? '–'}</span> },
  { key: 'error', title: 'End', cell: (row) => <div className="wrap-anywhere dim">{row.outcome ?? ''}</div>, wide: true },
  { key: 'at', title: 'Began', cell: (row) => <When at={row.leased_at} />, right: true },
];

/** One stream: where it is, its last attempts, and what its optimizers wrote. */
export function StreamDrawer({ id, close }: { id: string | undefined; close: () => void }) {
  return (
    <Drawer opened={id !== undefined} onClose={close} position="right" size="xl" title="Stream" closeButtonProps={{ 'aria-label': 'close' }}>
      {id !== undefined && <Details id={id} />}
    </Drawer>
  );
}

function Details({ id }: { id: string }) {
  const { data: stream, error } = useQuery(streamQuery(id));
  if (stream === undefined) return error === null ? <span className="dim">…</span> : <ProblemNote error={error} what="cannot show the stream" />;
  const engine = engineOf(stream);
  return (
    <div className="stack">
      <Facts
        columns
        facts={[
          { name: 'table', value: <TableLink catalog={stream.catalog} table={stream.table} /> },
          { name: 'state', value: <StreamMark stream={stream} /> },
          { name: 'topic', value: <span className="mono">{stream.topic ?? '–'}</span> },
          { name: 'connection', value: <span className="mono">{stream.connection ?? '–'}</span> },
          { name: 'position', value: <span className="mono" title={stream.position === null ? undefined : positionLines(stream.position)}>{positionText(stream.position)}</span> },
          { name: 'group', value: <span className="mono">{stream.group}</span> },
          { name: 'runs on', value: <span className="mono">{stream.owner ?? '–'}</span> },
          { name: 'engine', value: <EngineName stream={stream} /> },
          { name: 'state since', value: <When at={stream.changed_at} /> },
        ]}
      />
      {engine?.reason != null && <div className="wrap-anywhere dim">Drains in Spark: {engine.reason}</div>}
      {stream.reason !== null && <div className="wrap-anywhere">{stream.reason}</div>}
      {stream.remedy !== null && (
        <div className="wrap-anywhere">
          <Words>{stream.remedy}</Words>
        </div>
      )}
      <DataTable plain name="attempts" columns={ATTEMPTS} rows={[...stream.attempts].reverse()} id={(row) => String(row.number)} empty={<Empty title="No attempt yet">An optimizer that runs streams begins the first one.</Empty>} />
      <StreamLog id={id} />
    </div>
  );
}

function StreamLog({ id }: { id: string }) {
  const { data, error } = useQuery(streamLog(id));
  if (error !== null) return <ProblemNote error={error} what="cannot show the log" />;
  if (data === undefined) return null;
  if (data.length === 0) return <span className="dim">The optimizers wrote no log.</span>;
  return (
    <div className={styles.log} role="log" aria-label="stream log" tabIndex={0}>
      {data.map((line, index) => (
        <div key={index} className={styles.line}>
          <time dateTime={line.at} title={moment(line.at)}>
            {clock(line.at)}
          </time>
          <span>{line.line}</span>
        </div>
      ))}
    </div>
  );
}
