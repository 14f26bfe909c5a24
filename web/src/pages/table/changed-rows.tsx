import { Button, Select, Switch } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { Link } from 'react-router';

import { table as tableQuery } from '../../api/queries';
import { changedRows, FOLLOW_MS, versions } from '../../api/stream-queries';
import type { ChangedRow, ChangedRows, ChangesCommit, Table } from '../../api/types';
import { useNow, When } from '../../components/figures';
import { Empty, ProblemNote } from '../../components/notes';
import { authorOf, cellsOf, idOf, lastStep, SIGNS, versionChoices, visible, type Cell } from '../../lib/changes';
import { count, many } from '../../lib/format';
import { dotted } from '../../lib/names';
import { fullName, paths } from '../../lib/paths';
import { useUrlState } from '../../lib/url-state';
import styles from './changed-rows.module.css';

/** Lines of one inserted or deleted row that are shown at first. */
const FIRST_LINES = 8;
const STEPS_BACK = 5;

/** What changed between two versions of a keyed table: rows before and after, and who changed them. */
export function ChangesTab({ table }: { table: Table }) {
  const name = fullName(table);
  const now = useNow();
  const [get, set] = useUrlState();
  const [start] = useState(lastStep(table.version));
  const [all, showAll] = useState(false);
  const following = get('follow') === 'yes';
  const since = get('since') ?? start;
  const until = following ? undefined : get('until');
  const { data: known = [] } = useQuery(versions(table.catalog, name));
  const choices = versionChoices(known, now, [since, until]);
  const { data: newest = table.version } = useQuery({
    ...tableQuery(table.catalog, name),
    refetchInterval: following ? FOLLOW_MS : false,
    select: (current) => current.version,
  });
  if ((newest ?? 0) === 0) return <NoChanges table={table} />;
  return (
    <>
      <div className={styles.bar}>
        <Select label="Changes after" w={230} value={since} data={choices} searchable onChange={(value) => set({ since: value ?? undefined })} />
        <Select
          label="up to"
          w={230}
          value={until ?? ''}
          data={[{ value: '', label: 'the newest version' }, ...choices.filter(({ value }) => value !== '0')]}
          disabled={following}
          onChange={(value) => set({ until: value ?? undefined })}
        />
        <Switch
          size="xs"
          mb={6}
          label="follow"
          checked={following}
          onChange={(event) => set(event.currentTarget.checked ? { follow: 'yes', since: String(newest ?? 0), until: undefined } : { follow: undefined })}
        />
        <Switch size="xs" mb={6} label="all columns" checked={all} onChange={(event) => showAll(event.currentTarget.checked)} />
      </div>
      <Changes key={`${since}/${until ?? ''}/${following}`} table={table} since={since} until={until} following={following} newest={newest ?? 0} all={all} />
    </>
  );
}

function NoChanges({ table }: { table: Table }) {
  return (
    <Empty title="Nothing has changed yet">
      Each commit shows here, a row for each key that it changed. Write some rows:{' '}
      <code className="mono">firn.spark.upsert(df, "{`${dotted([table.catalog])}.${fullName(table)}`}", batch="1")</code>
    </Empty>
  );
}

interface ChangesProps {
  table: Table;
  since: string;
  until: string | undefined;
  following: boolean;
  newest: number;
  all: boolean;
}

function Changes({ table, since, until, following, newest, all }: ChangesProps) {
  const query = useInfiniteQuery(changedRows(table.catalog, fullName(table), since, until));
  const { data, error, isFetching, fetchNextPage } = query;
  const reached = data?.pages.at(-1)?.until;
  useEffect(() => {
    if (reached !== undefined && until === undefined && newest > reached && !isFetching && error === null) void fetchNextPage();
  }, [reached, until, newest, isFetching, error, fetchNextPage]);
  const pages = [...(data?.pages ?? [])].reverse();
  const shown = pages.reduce((sum, page) => sum + page.rows.length, 0);
  return (
    <>
      {error !== null && (
        <div style={{ padding: 12 }}>
          <ProblemNote error={error} what="cannot show the changes" />
        </div>
      )}
      {data === undefined && error === null && <Empty title="Reading the changes…" />}
      {data !== undefined && (
        <>
          <Summary pages={data.pages} following={following} />
          {shown > 0 && <Rows pages={pages} table={table} all={all} />}
          {shown === 0 && !following && (
            <Empty title="No row differs between these versions" action={<FurtherBack since={data.pages[0]?.since ?? 0} />}>Merges, compactions and rewrites change no row. A row that was changed and changed back shows no net change, either.</Empty>
          )}
          {shown === 0 && following && <Empty title="Waiting for the next change">New commits show here within seconds.</Empty>}
        </>
      )}
    </>
  );
}

/** Goes some versions back: the newest ones are often a merge and its clean, which change no row. */
function FurtherBack({ since }: { since: number }) {
  const [, set] = useUrlState();
  if (since === 0) return null;
  const earlier = Math.max(0, since - STEPS_BACK);
  return (
    <Button variant="default" onClick={() => set({ since: String(earlier) })}>
      Show changes since version {earlier}
    </Button>
  );
}

function Summary({ pages, following }: { pages: ChangedRows[]; following: boolean }) {
  const first = pages[0];
  const last = pages.at(-1);
  if (first === undefined || last === undefined) return null;
  const total = pages.reduce((sum, page) => sum + page.total, 0);
  const rows = pages.reduce((sum, page) => sum + page.rows.length, 0);
  const commits = pages.reduce((sum, page) => sum + page.commits.length, 0);
  return (
    <div className={styles.notes} role="status">
      <span>
        <b>{many(total, 'changed row')}</b> {rows < total && `(the newest ${count(rows)} are shown)`}
      </span>
      <span className="dim">
        after version {first.since}, up to version {last.until}, <When at={last.committed_at} />
      </span>
      <span className="dim">{many(commits, 'commit')}</span>
      {following && <span className="accent">following</span>}
    </div>
  );
}

function Rows({ pages, table, all }: { pages: ChangedRows[]; table: Table; all: boolean }) {
  return (
    <div style={{ overflowX: 'auto' }} tabIndex={0} role="group" aria-label="changed rows">
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">Change</th>
            <th scope="col">Key</th>
            <th scope="col">Column</th>
            <th scope="col">Before</th>
            <th scope="col">After</th>
            <th scope="col">By</th>
          </tr>
        </thead>
        {pages.flatMap((page) =>
          page.rows.map((row, place) => <Change key={`${page.until}/${idOf(row, place)}`} row={row} page={page} table={table} all={all} />),
        )}
      </table>
    </div>
  );
}

const NO_CELL: Cell = { column: '', before: undefined, after: undefined, differs: false, cut: false };

function Change({ row, page, table, all }: { row: ChangedRow; page: ChangedRows; table: Table; all: boolean }) {
  const [open, setOpen] = useState(false);
  const cells = cellsOf(row, page.primary_key, all);
  const shown = open || cells.length <= FIRST_LINES + 1 ? cells : cells.slice(0, FIRST_LINES);
  const lines = shown.length === 0 ? [NO_CELL] : shown;
  const more = cells.length - shown.length;
  const span = lines.length + (more > 0 ? 1 : 0);
  const { sign, says } = SIGNS[row.change_type] ?? { sign: '~', says: row.change_type };
  return (
    <tbody>
      {lines.map((cell, index) => (
        <tr key={cell.column}>
          {index === 0 && (
            <>
              <td className={styles.kind} rowSpan={span}>
                <span className={styles.sign} data-sign={sign} aria-hidden>
                  {sign}
                </span>
                {says}
              </td>
              <td className={styles.key} rowSpan={span}>
                {page.primary_key.map((name) => (
                  <div key={name}>
                    {page.primary_key.length > 1 && <span className="dim">{name} </span>}
                    <Text value={row.key[name]} />
                  </div>
                ))}
              </td>
            </>
          )}
          <td className={`mono dim ${styles.column ?? ''}`}>{cell.column}</td>
          <td className={styles.value} data-side="before" data-differs={cell.differs && cell.before !== undefined}>
            <Text value={cell.before} cut={cell.cut} />
          </td>
          <td className={styles.value} data-side="after" data-differs={cell.differs && cell.after !== undefined}>
            <Text value={cell.after} cut={cell.cut} />
          </td>
          {index === 0 && (
            <td className={styles.by} rowSpan={span}>
              <By commit={page.commits.find((commit) => commit.snapshot_id === row.snapshot_id)} table={table} />
            </td>
          )}
        </tr>
      ))}
      {more > 0 && (
        <tr>
          <td colSpan={3}>
            <button type="button" className={styles.more} onClick={() => setOpen(true)}>
              {many(more, 'more column')}
            </button>
          </td>
        </tr>
      )}
    </tbody>
  );
}

/** A value as text; null and the empty text look like what they are, and nothing is ever markup. */
function Text({ value, cut = false }: { value: string | null | undefined; cut?: boolean }) {
  if (value === undefined) return null;
  if (value === null) return <span className="dim">null</span>;
  if (value === '') return <span className="dim">empty text</span>;
  return (
    <div className={`mono ${styles.text ?? ''}`}>
      <bdi>{visible(value)}</bdi>
      {cut && <span className="dim"> … (the rest is left out)</span>}
    </div>
  );
}

function By({ commit, table }: { commit: ChangesCommit | undefined; table: Table }) {
  if (commit === undefined) return <span className="dim" title="a job, or a commit to base">no single commit</span>;
  return (
    <>
      <div className="wrap-anywhere">{authorOf(commit)}</div>
      <div className="dim">
        <Link className="inline" to={`${paths.table(table.catalog, fullName(table), 'snapshots')}&snapshot=${commit.snapshot_id}`}>version {commit.version}</Link>, <When at={commit.committed_at} />
      </div>
    </>
  );
}
