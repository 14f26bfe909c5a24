import { Drawer } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { Link, useLocation } from 'react-router';

import { comparison, entries } from '../../api/queries';
import type { CommitEvent, Comparison, Table, Topic } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { Choice } from '../../components/choice';
import { DataTable, type Column } from '../../components/data-table';
import { AddedRemoved, Bytes, Count, When } from '../../components/figures';
import { Empty, ProblemNote } from '../../components/notes';
import { Facts } from '../../components/panel';
import { need, onTable } from '../../lib/access';
import { engineText, many } from '../../lib/format';
import { fullName, paths } from '../../lib/paths';
import { useUrlState } from '../../lib/url-state';
import { ChangeList } from './changes';
import styles from './changes.module.css';
import { RollbackDialog } from './rollback';
import { SummaryFacts } from './snapshot-details';

const TOPICS: { value: Topic | 'all'; label: string }[] = [
  { value: 'all', label: 'All' },
  { value: 'data', label: 'Data' },
  { value: 'schema', label: 'Schema' },
  { value: 'layout', label: 'Layout' },
  { value: 'properties', label: 'Properties' },
  { value: 'refs', label: 'Branches and tags' },
  { value: 'maintenance', label: 'Maintenance' },
  { value: 'life', label: 'Lifecycle' },
];
const OF_VIEWS = ['all', 'schema', 'properties', 'life'];

export const byWhom = (event: CommitEvent): string => {
  if (event.engine !== null) return engineText(event.engine);
  return event.job_id === null ? '–' : 'a job';
};

const COLUMNS: Column<CommitEvent>[] = [
  { key: 'what', title: 'What changed', cell: (row) => <span className="wrap-anywhere">{row.headline}</span>, wide: true },
  { key: 'operation', title: 'Operation', cell: (row) => row.operation },
  { key: 'table', title: 'Table', cell: (row) => <span className="mono dim">{row.table}</span>, extra: true },
  { key: 'who', title: 'Who', cell: (row) => row.principal ?? <span className="dim">–</span> },
  { key: 'engine', title: 'Engine', cell: (row) => <span className="dim">{byWhom(row)}</span> },
  { key: 'entry', title: 'Entry', cell: (row) => <span className="mono dim">@{row.id}</span>, right: true },
  { key: 'at', title: 'When', cell: (row) => <When at={row.committed_at} />, right: true },
];

interface HistoryProps {
  catalog: string;
  name: string;
  /** The table, when it is one: entries of a view can only be looked at here. */
  table?: Table;
}

/** The versions of a table or view, newest first; each opens to say what it changed. */
export function HistoryTab({ catalog, name, table }: HistoryProps) {
  const [get, set] = useUrlState();
  const { pathname, search } = useLocation();
  const about = TOPICS.find((item) => item.value === get('about'))?.value ?? 'all';
  const found = useInfiniteQuery(entries(catalog, name, about === 'all' ? undefined : about));
  const rows = found.data?.pages.flatMap((page) => page.items);
  const open = rows?.find((row) => String(row.id) === get('entry'));
  const link = (row: CommitEvent): string => {
    const params = new URLSearchParams(search);
    params.set('entry', String(row.id));
    return `${pathname}?${params.toString()}`;
  };
  return (
    <>
      <div className={styles.head}>
        <Choice
          label="what the commits are about"
          value={about}
          set={(value) => set({ about: value === 'all' ? undefined : value, entry: undefined })}
          options={TOPICS.filter((item) => table !== undefined || OF_VIEWS.includes(item.value))}
        />
        {table !== undefined && (
          <ActionButton variant="default" needs={need(onTable(catalog, name), 'write')} disabledReason={rollbackReason(table)} onClick={() => set({ rollback: 'choose' })}>
            Roll back
          </ActionButton>
        )}
      </div>
      <DataTable
        plain
        name="history"
        columns={COLUMNS}
        rows={rows}
        error={found.error}
        id={(row) => String(row.id)}
        link={link}
        more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
        empty={<Empty title="No matching changes">Choose another kind of change above.</Empty>}
      />
      <Drawer
        opened={open !== undefined}
        onClose={() => set({ entry: undefined })}
        position="right"
        size="lg"
        title={open && `${open.operation} on ${open.table}`}
        closeButtonProps={{ 'aria-label': 'close' }}
      >
        {open && <Entry catalog={catalog} name={name} event={open} {...(table === undefined ? {} : { table })} />}
      </Drawer>
      {table !== undefined && (
        <RollbackDialog
          catalog={catalog}
          table={name}
          opened={get('rollback') !== undefined}
          target={get('rollback') === 'choose' ? undefined : get('rollback')}
          close={() => set({ rollback: undefined })}
        />
      )}
    </>
  );
}

const rollbackReason = (table: Table): string | null =>
  table.allowed_actions.includes('rollback') ? null : (table.unavailable_actions.rollback ?? 'It cannot be rolled back now.');

/** One entry: when, who, by which engine, what changed, and what can be done with the state it left. */
function Entry({ catalog, name, event, table }: HistoryProps & { event: CommitEvent }) {
  const facts: { name: string; value: ReactNode }[] = [
    { name: 'committed', value: <When at={event.committed_at} /> },
    { name: 'who', value: event.principal ?? '–' },
    { name: 'engine', value: byWhom(event) },
    ...(event.app_id === null ? [] : [{ name: 'application', value: <span className="mono">{event.app_id}</span> }]),
    ...(event.job_id === null ? [] : [{ name: 'job', value: <Link className="mono" to={paths.job(event.job_id)}>{event.job_id.slice(0, 8)}</Link> }]),
    ...(event.snapshot_id === null
      ? []
      : [
          { name: 'rows', value: <AddedRemoved added={event.added_rows} removed={event.removed_rows} /> },
          { name: 'files', value: <AddedRemoved added={event.added_files} removed={event.removed_files} /> },
          { name: 'bytes added', value: <Bytes value={event.added_bytes} /> },
          { name: 'snapshot', value: <span className="mono">{event.snapshot_id}</span> },
        ]),
    { name: 'entry', value: <span className="mono">@{event.id}</span> },
  ];
  return (
    <div className="stack">
      <Facts columns facts={facts} />
      <section>
        <h3 className={styles.section}>What changed</h3>
        <ChangeList changes={event.changes} />
      </section>
      {table !== undefined && event.head_id !== null && <EntryActions table={table} event={event} head={event.head_id} />}
      {table !== undefined && <CompareWithNow key={event.id} catalog={catalog} name={name} event={event} />}
      {event.snapshot_id !== null && (
        <section>
          <h3 className={styles.section}>Summary of the snapshot</h3>
          <SummaryFacts summary={event.summary} />
        </section>
      )}
    </div>
  );
}

function EntryActions({ table, event, head }: { table: Table; event: CommitEvent; head: string }) {
  const [, set] = useUrlState();
  const change = event.table.endsWith('.change') && table.kind === 'keyed';
  const needs = need(onTable(table.catalog, fullName(table)), 'write');
  return (
    <div className="row row-wrap">
      <ActionButton
        variant="default"
        needs={needs}
        disabledReason={table.allowed_actions.includes('tag') ? (change ? 'Only states of the base store can be tagged.' : null) : (table.unavailable_actions.tag ?? 'It cannot be tagged now.')}
        onClick={() => set({ tab: 'refs', entry: undefined, new: head })}
      >
        Tag this state
      </ActionButton>
      <ActionButton variant="default" needs={needs} disabledReason={rollbackReason(table)} onClick={() => set({ entry: undefined, rollback: head })}>
        Roll back to this
      </ActionButton>
    </div>
  );
}

function CompareWithNow({ catalog, name, event }: HistoryProps & { event: CommitEvent }) {
  const [asked, ask] = useState(false);
  const { data, error } = useQuery({ ...comparison(catalog, name, `@${event.id}`, 'main'), enabled: asked });
  if (event.table.endsWith('.change')) return null;
  if (!asked) {
    return (
      <div>
        <ActionButton variant="default" onClick={() => ask(true)}>
          Compare with now
        </ActionButton>
      </div>
    );
  }
  return (
    <section>
      <h3 className={styles.section}>From this state to now</h3>
      {error && <ProblemNote error={error} what="cannot compare" />}
      {data && <Compared found={data} />}
    </section>
  );
}

function Compared({ found }: { found: Comparison }) {
  const { first: before, second: other, only_in_first: lost, only_in_second: gained } = found;
  return (
    <div className="stack">
      <Facts
        columns
        facts={[
          { name: 'rows', value: <><Count value={before.totals.rows} /> → <Count value={other.totals.rows} /></> },
          { name: 'files', value: <><Count value={before.totals.files} /> → <Count value={other.totals.files} /></> },
          { name: 'size', value: <><Bytes value={before.totals.bytes} /> → <Bytes value={other.totals.bytes} /></> },
          { name: 'commits since', value: many(gained.commits, 'commit') },
          ...(lost.commits === 0 ? [] : [{ name: 'not in main any more', value: many(lost.commits, 'commit') }]),
        ]}
      />
      {found.changes.length > 0 ? <ChangeList changes={found.changes} /> : found.unknown.length === 0 && <span className="dim">Columns, properties and layout are the same.</span>}
      {found.unknown.map((words) => (
        <div key={words} className="dim">
          Not known: {words}
        </div>
      ))}
    </div>
  );
}
