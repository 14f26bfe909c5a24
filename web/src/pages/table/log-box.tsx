import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';

import { answered, api } from '../../api/client';
import { asProblem } from '../../api/problem';
import { plannedSkip, streams, tableLog } from '../../api/stream-queries';
import type { Stream, Table, TableLog } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { ConfirmDialog } from '../../components/confirm-dialog';
import { Count, When } from '../../components/figures';
import { ProblemNote } from '../../components/notes';
import { BROKEN, Mark, WARNING } from '../../components/status-icons';
import { ResetLogDialog } from '../../components/reset-log';
import { Sparkline } from '../../components/sparkline';
import { StreamMark } from '../../components/stream-mark';
import { useSamples } from '../../components/use-samples';
import { need, onTable } from '../../lib/access';
import { fullName, paths } from '../../lib/paths';
import { engineOf, logOf, lossText, partitionLines, positionText, rateText, streamText, totalOf, waitingText } from '../../lib/streams';
import { firn } from '../../lib/terminal';
import { Figure, Flow } from './store-parts';
import styles from './stores.module.css';

/** The topic in front of a table, up to where drains have brought its records, and why they stop. */
export function LogBox({ table }: { table: Table }) {
  const { data: log, error } = useQuery(tableLog(table.catalog, fullName(table)));
  const listed = useInfiniteQuery(streams({ catalog: table.catalog, table: fullName(table) }));
  const stream = listed.data?.pages[0]?.items[0];
  const [skipping, skip] = useState(false);
  const [resetting, reset] = useState(false);
  const needs = need(onTable(table.catalog, fullName(table)), 'write');
  const settings = logOf(table);
  const stopped = log?.problem ?? null;
  return (
    <>
      <div className={styles.box}>
        <div className="row spread">
          <b className="mono">log</b>
          <span className="dim" style={{ fontSize: 12 }}>
            {settings?.format}
          </span>
        </div>
        <div className={`${styles.note} wrap-anywhere`}>
          Kafka topic <span className="mono">{settings?.topic}</span>
        </div>
        {log !== undefined && <Numbers log={log} />}
        <div className={`${styles.lag} wrap-anywhere`}>
          {error !== null ? (
            <>
              <Mark look={{ ...BROKEN, says: 'Kafka cannot be asked' }} />
              <div className="dim">{asProblem(error).message}</div>
            </>
          ) : stopped !== null ? (
            <>
              <Mark look={{ ...WARNING, says: 'Drains stop' }} />
              <div>{stopped.message}</div>
              <ActionButton mt={6} mr={6} size="compact-xs" variant="default" needs={needs} onClick={() => skip(true)}>
                Skip…
              </ActionButton>
            </>
          ) : (
            log !== undefined && <span className={log.lag > 0 ? 'accent' : 'dim'}>{waitingText(log.lag)}</span>
          )}
          {log !== undefined && (
            <ActionButton mt={6} size="compact-xs" variant="default" needs={needs} onClick={() => reset(true)} style={{ display: stopped === null ? 'block' : undefined }}>
              Reset…
            </ActionButton>
          )}
          {stream !== undefined && <StreamState stream={stream} known={stopped !== null} />}
        </div>
      </div>
      <Flow above="drain" live={log !== undefined && stopped === null && log.lag > 0} below={log !== undefined && <Drained log={log} table={table} />} />
      {resetting && <ResetLogDialog catalog={table.catalog} table={fullName(table)} close={() => reset(false)} />}
      {skipping && <SkipDialog table={table} close={() => skip(false)} />}
    </>
  );
}

/** The stream that drains the table: it may be paused, or have stopped for another reason than the log's own. */
function StreamState({ stream, known }: { stream: Stream; known: boolean }) {
  return (
    <div>
      <Link to={paths.streams(stream.id)}>
        <StreamMark stream={stream}>
          <span className="wrap-anywhere">stream: {streamText(stream)}</span>
        </StreamMark>
      </Link>
      <Engine stream={stream} />
      <Rate stream={stream} />
      {!known && stream.reason !== null && <div className="wrap-anywhere">{stream.reason}</div>}
    </div>
  );
}

/** What drains, and why it is Spark: a reason is a cost that a change of the table may save. */
function Engine({ stream }: { stream: Stream }) {
  const engine = engineOf(stream);
  if (engine === null) return null;
  return (
    <div className="wrap-anywhere dim">
      drains {engine.name === 'Spark' ? 'in Spark' : engine.name}
      {engine.reason !== null && `: ${engine.reason}`}
    </div>
  );
}

/** How the rate has changed while the console was open; the server keeps the last measure only. */
function Rate({ stream }: { stream: Stream }) {
  const samples = useSamples(stream);
  const last = samples.at(-1);
  if (last === undefined || samples.length < 2) return null;
  const most = Math.max(...samples.map((sample) => sample.rate));
  return <Sparkline samples={samples} label={`rows/s: ${rateText(last.rate)} now, ${rateText(most)} at most since this page was opened`} />;
}

function Numbers({ log }: { log: TableLog }) {
  const partitions = Object.keys(log.end).length;
  return (
    <div className={styles.numbers} title={partitionLines(log)}>
      <Figure name="end" value={<Count value={totalOf(log.end)} />} />
      <Figure name="drained to" value={<Count value={totalOf(log.start)} />} />
      <Figure name={partitions === 1 ? 'partition' : 'partitions'} value={<Count value={partitions} />} />
    </div>
  );
}

function Drained({ log, table }: { log: TableLog; table: Table }) {
  if (log.position === null) {
    return (
      <>
        not drained yet: <span className="mono wrap-anywhere">firn drain {fullName(table)}</span>
      </>
    );
  }
  return log.committed_at === null ? (
    'drained'
  ) : (
    <>
      last drain <When at={log.committed_at} />
    </>
  );
}

/** Says what a skip gives up before it is done; the server refuses it if something else would be skipped by then. */
function SkipDialog({ table, close }: { table: Table; close: () => void }) {
  const { data: plan, error } = useQuery(plannedSkip(table.catalog, fullName(table)));
  if (plan === undefined) {
    return (
      <ConfirmDialog title={`Skip records of ${fullName(table)}`} opened close={close} yes="Close" command={null} act={() => Promise.resolve()}>
        {error === null ? 'Looking at what would be skipped…' : <ProblemNote error={error} what="cannot plan the skip" />}
      </ConfirmDialog>
    );
  }
  return (
    <ConfirmDialog
      title={`Skip records of ${fullName(table)}`}
      opened
      close={close}
      yes="Skip them"
      danger
      command={firn('log skip', [fullName(table)], { catalog: table.catalog })}
      act={() =>
        answered(
          api.POST('/catalogs/{catalog}/tables/{table}/log/skip', {
            params: { path: { catalog: table.catalog, table: fullName(table) } },
            body: { to: plan.position },
          }),
        )
      }
    >
      <div className="stack wrap-anywhere">
        <div>{plan.problem.message}.</div>
        <div>
          <b>{lossText(plan.problem.lost)}</b> Drains go on from <span className="mono">{positionText(plan.position)}</span> instead of{' '}
          <span className="mono">{positionText(plan.start)}</span>. A drain that runs now ends, and the stream of the table starts again.
        </div>
      </div>
    </ConfirmDialog>
  );
}
