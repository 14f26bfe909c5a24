import { Button, CopyButton, Tabs } from '@mantine/core';
import { useInfiniteQuery, useMutation, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';

import { download, isActive, sqlQuery, sqlRows } from '../../api/sql-queries';
import type { SqlQuery } from '../../api/types';
import { Empty, Note, ProblemNote, Words } from '../../components/notes';
import { Panel } from '../../components/panel';
import { RunningQuery } from '../../components/running-query';
import { ResultChart } from '../../components/result-chart';
import { ResultTable } from '../../components/result-table';
import { count, many } from '../../lib/format';
import { toClipboard } from '../../lib/results';
import styles from './sql.module.css';

/** One query: how far it is, and its rows. */
export function Result({ id, cancel, canceling }: { id: string; cancel: () => void; canceling: boolean }) {
  const { data: query, error } = useQuery(sqlQuery(id));
  if (error !== null) return <ProblemNote error={error} what="cannot show the query" />;
  if (query === undefined) return <Panel>…</Panel>;
  if (isActive(query)) return <RunningQuery query={query} cancel={cancel} canceling={canceling} />;
  if (query.state === 'canceled') return <Note title="The query was canceled" />;
  if (query.state === 'failed') {
    return (
      <Note tone="bad" title={query.message ?? 'the query failed'}>
        {query.hint !== null && <Words>{query.hint}</Words>}
      </Note>
    );
  }
  if (query.result_until === null || new Date(query.result_until) < new Date()) {
    return <Note title="The rows are not kept any more">Run the statement again.</Note>;
  }
  return <Rows key={query.id} query={query} />;
}

function Rows({ query }: { query: SqlQuery }) {
  const { data, error, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery(sqlRows(query.id));
  const [all, setAll] = useState(false);
  useEffect(() => {
    if (all && hasNextPage && !isFetching) void fetchNextPage();
  }, [all, hasNextPage, isFetching, fetchNextPage]);
  const rows = data?.pages.flatMap((page) => page.rows) ?? [];
  if (error !== null) return <ProblemNote error={error} what="cannot read the rows" />;
  if (data === undefined) return <Panel>…</Panel>;
  if (query.explain) {
    return (
      <Panel title="Plan" flush>
        <pre className={`mono ${styles.plan}`} tabIndex={0} aria-label="plan">
          {rows.map(([line]) => line).join('\n')}
        </pre>
      </Panel>
    );
  }
  const text = rows.length === 1 && query.columns.length === 1 ? rows[0]?.[0] : undefined;
  if (text?.includes('\n') === true) {
    // One long text, such as that of SHOW CREATE TABLE: a table would show it in one line.
    return (
      <Panel flush title={<Summary query={query} />} aside={<Downloads query={query} rows={rows} />}>
        <pre className={`mono ${styles.plan}`} tabIndex={0} aria-label="text">
          {text}
        </pre>
      </Panel>
    );
  }
  return (
    <Panel flush title={<Summary query={query} />} aside={<Downloads query={query} rows={rows} />}>
      {query.notes.map((note) => (
        <Note key={note} tone="warn" title={note} />
      ))}
      {rows.length === 0 ? (
        <Empty title="No rows" />
      ) : (
        <Tabs defaultValue="rows" keepMounted={false}>
          <Tabs.List aria-label="result">
            <Tabs.Tab value="rows">Rows</Tabs.Tab>
            <Tabs.Tab value="chart">Chart</Tabs.Tab>
          </Tabs.List>
          <Tabs.Panel value="rows">
            <ResultTable name="result" columns={query.columns} rows={rows} loadAll={() => setAll(true)} />
            {hasNextPage && (
              <div style={{ padding: 8 }}>
                <Button variant="subtle" size="compact-sm" loading={isFetching} onClick={() => void fetchNextPage()}>
                  Load more rows
                </Button>
              </div>
            )}
          </Tabs.Panel>
          <Tabs.Panel value="chart">
            <ResultChart columns={query.columns} rows={rows} />
          </Tabs.Panel>
        </Tabs>
      )}
    </Panel>
  );
}

function Summary({ query }: { query: SqlQuery }) {
  const started = query.started_at ?? query.created_at;
  const seconds = query.ended_at === null ? null : (new Date(query.ended_at).getTime() - new Date(started).getTime()) / 1000;
  return (
    <span role="status">
      {query.truncated ? `the first ${count(query.rows)} rows` : many(query.rows, 'row')}
      {seconds !== null && <span className="dim"> in {seconds.toFixed(2)} s</span>}
    </span>
  );
}

function Downloads({ query, rows }: { query: SqlQuery; rows: (string | null)[][] }) {
  const save = useMutation({ mutationFn: (format: 'csv' | 'parquet') => download(query.id, format) });
  if (rows.length === 0) return null;
  return (
    <div className="row row-wrap">
      <CopyButton value={toClipboard(query.columns, rows)} timeout={1500}>
        {({ copied, copy }) => (
          <Button variant="default" size="compact-sm" onClick={copy}>
            {copied ? 'Copied' : 'Copy'}
          </Button>
        )}
      </CopyButton>
      <Button variant="default" size="compact-sm" onClick={() => save.mutate('csv')}>
        CSV
      </Button>
      <Button variant="default" size="compact-sm" onClick={() => save.mutate('parquet')}>
        Parquet
      </Button>
      {save.error && <span className="bad">{save.error.message}</span>}
    </div>
  );
}
