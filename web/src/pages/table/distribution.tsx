import { ActionIcon, Button, Modal } from '@mantine/core';
import { IconChartHistogram } from '@tabler/icons-react';
import { useMutation, useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from 'react';

import { begunDistribution, distribution } from '../../api/distributions';
import { cancelQuery, isActive, sqlSettings } from '../../api/sql-queries';
import type { Distribution, Table } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { InTerminal } from '../../components/in-terminal';
import { Empty, Note, ProblemNote } from '../../components/notes';
import { RowsOff } from '../../components/rows-off';
import { RunningQuery } from '../../components/running-query';
import { describeDistribution, factsOf, shareOf, slicesOf, whyEmpty, type Slice } from '../../lib/distribution';
import { exact, many } from '../../lib/format';
import { fullName } from '../../lib/paths';
import { firn } from '../../lib/terminal';
import styles from './distribution.module.css';

/** Loaded with the first chart, so the console's first page does not wait for it. */
const DistributionPlot = lazy(() => import('../../components/distribution-plot'));

/** Opens how the values of one column are distributed. Nothing is read before. */
export function DistributionButton({ table, column }: { table: Table; column: string }) {
  const [isOpen, setOpen] = useState(false);
  const [attempt, setAttempt] = useState(0);
  const button = useRef<HTMLButtonElement>(null);
  // The dialog exists only while it is open, a table may have hundreds of columns: so it cannot give the focus back itself.
  useEffect(() => {
    if (!isOpen && attempt > 0) button.current?.focus();
  }, [isOpen, attempt]);
  const open = () => {
    setAttempt(attempt + 1);
    setOpen(true);
  };
  return (
    <>
      <ActionIcon ref={button} variant="subtle" color="gray" size={24} aria-label={`distribution of ${column}`} title="Distribution: reads this column" onClick={open}>
        <IconChartHistogram size={16} aria-hidden />
      </ActionIcon>
      {isOpen && (
        <Modal
          opened
          onClose={() => setOpen(false)}
          size="lg"
          title={
            <>
              Distribution of <span className="mono wrap-anywhere">{column}</span>
            </>
          }
          closeButtonProps={{ 'aria-label': 'close' }}
        >
          <Counted key={attempt} table={table} column={column} attempt={attempt} again={() => setAttempt(attempt + 1)} />
          <div style={{ marginTop: 12 }}>
            <InTerminal command={firn('table columns', [fullName(table)], { catalog: table.catalog, distribution: column })} />
          </div>
        </Modal>
      )}
    </>
  );
}

interface CountedProps {
  table: Table;
  column: string;
  /** Each attempt is a query of its own. */
  attempt: number;
  again: () => void;
}

function Counted({ table, column, attempt, again }: CountedProps) {
  const settings = useQuery(sqlSettings());
  const name = fullName(table);
  const state = `${table.last_commit_at} ${table.pending_rows} ${attempt}`;
  const begun = useQuery({ ...begunDistribution(table.catalog, name, column, state), enabled: settings.data?.enabled !== false });
  const asked = useQuery({ ...distribution(table.catalog, name, begun.data?.query.id), enabled: begun.data !== undefined && isActive(begun.data.query) });
  const stop = useMutation({ mutationFn: cancelQuery, onSuccess: () => asked.refetch() });
  const answer = asked.data ?? begun.data;
  useCancelOnLeave(answer !== undefined && isActive(answer.query) ? answer.query.id : null);
  const error = begun.error ?? asked.error;
  if (settings.data?.enabled === false) return <RowsOff />;
  if (error !== null) return <ProblemNote error={error} what="cannot count the column" />;
  if (answer === undefined) return <Empty title="Counting the column…" />;
  const { query } = answer;
  const repeat = (
    <Button variant="default" onClick={again}>
      Count again
    </Button>
  );
  if (isActive(query)) return <RunningQuery query={query} cancel={() => stop.mutate(query.id)} canceling={stop.isPending} />;
  if (query.state === 'canceled') return <Note title="The count was canceled" action={repeat} />;
  if (query.state === 'failed' || answer.distribution === null) {
    return (
      <Note tone="bad" title={query.message ?? 'The count has no result'} action={repeat}>
        {query.hint}
      </Note>
    );
  }
  return <Shown counted={answer.distribution} notes={query.notes} />;
}

/** A query that nobody waits for any more should not read on. */
function useCancelOnLeave(id: string | null) {
  const last = useRef<string | null>(null);
  useEffect(() => {
    last.current = id;
  }, [id]);
  useEffect(
    () => () => {
      if (last.current !== null) void cancelQuery(last.current).catch(() => undefined);
    },
    [],
  );
}

function Shown({ counted, notes }: { counted: Distribution; notes: readonly string[] }) {
  const slices = useMemo(() => slicesOf(counted), [counted]);
  const empty = whyEmpty(counted);
  return (
    <div className="stack">
      <dl className={styles.facts}>
        {factsOf(counted).map(({ name, value }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {empty === null ? (
        <>
          {counted.kind === 'bars' && <Chart counted={counted} slices={slices} />}
          <div className={styles.rows} tabIndex={0} role="region" aria-label={counted.kind === 'bars' ? 'rows of each bar' : 'rows of each value'}>
            <DataTable plain name={`distribution by ${counted.kind}`} columns={columnsOf(counted, slices)} rows={slices} id={({ id }) => String(id)} empty={null} />
          </div>
        </>
      ) : (
        <Empty title={empty.title}>{empty.text}</Empty>
      )}
      <div className="dim" style={{ fontSize: 12.5 }}>
        Counted over all rows that readers see.{notes.map((note) => ` ${note}.`)}
      </div>
    </div>
  );
}

function Chart({ counted, slices }: { counted: Distribution; slices: readonly Slice[] }) {
  const [at, setAt] = useState<number | null>(null);
  const rows = useMemo(() => slices.map((slice) => slice.rows), [slices]);
  const pointed = at === null ? undefined : slices[at];
  return (
    <figure className={styles.chart} role="img" aria-label={describeDistribution(counted)}>
      <div className={styles.pointed} aria-hidden>
        {pointed === undefined ? <span className="dim">rows in {many(slices.length, 'bar')} of equal width</span> : `${pointed.label}: ${many(pointed.rows, 'row')}`}
      </div>
      <Suspense fallback={<div style={{ height: 180 }} />}>
        <DistributionPlot rows={rows} point={setAt} />
      </Suspense>
      <div className={styles.ends} aria-hidden>
        <span>{counted.bars[0]?.lower}</span>
        <span>{counted.bars.at(-1)?.upper}</span>
      </div>
    </figure>
  );
}

const columnsOf = (counted: Distribution, slices: readonly Slice[]): Column<Slice>[] => {
  const most = Math.max(1, ...slices.map(({ rows }) => rows));
  const bar: Column<Slice> = {
    key: 'bar',
    title: 'Share',
    cell: ({ rows }) => (
      <span className={styles.share} aria-hidden>
        <span className={styles.fill} style={{ width: `${(100 * rows) / most}%` }} />
      </span>
    ),
  };
  return [
    { key: 'label', title: counted.kind === 'bars' ? 'From – to' : 'Value', cell: ({ label, isValue }) => <span className={isValue ? `mono ${styles.value}` : 'dim'}>{label}</span>, wide: true },
    { key: 'rows', title: 'Rows', cell: ({ rows }) => exact(rows), right: true },
    { key: 'share', title: 'Of values', cell: ({ rows }) => shareOf(rows, counted), right: true },
    ...(counted.kind === 'bars' ? [] : [bar]),
  ];
};
