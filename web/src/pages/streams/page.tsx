import { Button, Select, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { streams } from '../../api/stream-queries';
import type { Stream, StreamStatus } from '../../api/types';
import { useCatalog } from '../../components/catalog';
import { DataTable, type Column } from '../../components/data-table';
import { EngineName } from '../../components/engine-name';
import { Count, Span, When } from '../../components/figures';
import { Empty, Words } from '../../components/notes';
import { Page } from '../../components/panel';
import { StreamMark } from '../../components/stream-mark';
import { paths } from '../../lib/paths';
import { isLate, rateText } from '../../lib/streams';
import { useUrlState } from '../../lib/url-state';
import { StreamActions } from './actions';
import { StreamDrawer } from './drawer';

const STATUSES: { value: string; label: string }[] = [
  { value: '', label: 'Every state' },
  ...['running', 'waiting', 'paused', 'stopped'].map((value) => ({ value, label: value })),
];

const COLUMNS: Column<Stream>[] = [
  { key: 'table', title: 'Table', cell: (row) => <Short text={row.table} width={230} /> },
  { key: 'catalog', title: 'Catalog', cell: (row) => <span className="mono">{row.catalog}</span>, extra: true },
  { key: 'state', title: 'State', cell: (row) => <State stream={row} />, wide: true },
  { key: 'seconds', title: 'Lag', cell: (row) => <Lag stream={row} />, right: true, help: 'since the table had all records of the topic' },
  { key: 'rows', title: 'In rows', cell: (row) => <Count value={row.lag_rows} />, right: true, help: 'at most: offsets have gaps' },
  { key: 'rate', title: 'Rows/s', cell: (row) => (row.rows_per_second === null ? <span className="dim">–</span> : rateText(row.rows_per_second)), right: true },
  { key: 'committed', title: 'Last commit', cell: (row) => <When at={row.last_commit_at} />, right: true },
  { key: 'owner', title: 'Runs on', cell: (row) => <Short text={row.owner} width={130} /> },
  { key: 'engine', title: 'Engine', cell: (row) => <EngineName stream={row} />, help: 'what drains: Firn itself, or Spark where only Spark can' },
  { key: 'topic', title: 'Topic', cell: (row) => <Short text={row.topic} width={160} />, extra: true },
  { key: 'kind', title: 'Kind', cell: (row) => row.kind, extra: true },
  { key: 'group', title: 'Group', cell: (row) => <span className="mono">{row.group}</span>, extra: true },
  { key: 'attempt', title: 'Attempt', cell: (row) => <Count value={row.attempt} />, right: true, extra: true },
  { key: 'act', title: '', cell: (row) => <StreamActions stream={row} />, right: true },
];

/** A name of any length; in full on hover. */
function Short({ text, width }: { text: string | null; width: number }) {
  if (text === null) return <span className="dim">–</span>;
  return (
    <div className="mono truncate" style={{ maxWidth: width }} title={text}>
      {text}
    </div>
  );
}

function State({ stream }: { stream: Stream }) {
  return (
    <div style={{ minWidth: 170 }}>
      <StreamMark stream={stream} />
      {stream.reason !== null && <div className="wrap-anywhere dim">{stream.reason}</div>}
      {stream.remedy !== null && (
        <div className="wrap-anywhere">
          <Words>{stream.remedy}</Words>
        </div>
      )}
      {stream.retry_at !== null && (
        <div className="dim">
          next attempt <When at={stream.retry_at} />
        </div>
      )}
    </div>
  );
}

function Lag({ stream }: { stream: Stream }) {
  if (stream.lag_rows === 0 && stream.lag_seconds === 0) return <span className="dim">none</span>;
  return (
    <span className={isLate(stream) ? 'warn' : ''} title={stream.max_lag_seconds === null ? undefined : `the table aims at ${stream.max_lag_seconds} s`}>
      <Span seconds={stream.lag_seconds} />
    </span>
  );
}

/** All streams of the server: what brings records into which table, where, and how far behind it is. */
export function StreamsPage() {
  const [get, set] = useUrlState();
  const { name } = useCatalog();
  const search = get('search');
  const status = get('status');
  const find = useDebouncedCallback((text: string) => set({ search: text.trim() || undefined }), 250);
  const listed = useInfiniteQuery(
    streams({ ...(search === undefined ? {} : { search }), ...(status === undefined ? {} : { status: [status as StreamStatus] }) }),
  );
  const rows = listed.data?.pages.flatMap((page) => page.items);
  return (
    <Page
      title="Streams"
      sub="Drains bring the records of Kafka topics into tables; optimizers run them."
      actions={
        <Button component={Link} to={paths.cdc(name)} variant="default">
          Set up change data capture
        </Button>
      }
    >
      <div className="row row-wrap">
        <TextInput
          aria-label="search by table"
          placeholder="Part of a table's name"
          leftSection={<IconSearch size={14} />}
          defaultValue={search ?? ''}
          onChange={(event) => find(event.currentTarget.value)}
          w={220}
        />
        <Select aria-label="state" w={140} value={status ?? ''} data={STATUSES} onChange={(value) => set({ status: value ?? undefined })} />
      </div>
      <DataTable
        name="streams"
        columns={COLUMNS}
        rows={rows}
        error={listed.error}
        id={(row) => row.id}
        link={(row) => paths.streams(row.id)}
        more={{ has: listed.hasNextPage, loading: listed.isFetchingNextPage, load: () => void listed.fetchNextPage() }}
        empty={
          search !== undefined || status !== undefined ? (
            <Empty title="No matching stream">Clear the filter to see all.</Empty>
          ) : (
            <Empty title="No stream yet">
              A table with a log has one. Give a keyed table a topic when you create it: <code className="mono">'firn.log.topic' = 'orders', 'firn.log.connection' = 'main', 'firn.log.format' = 'firn-json'</code>.
              Then start an optimizer that runs streams: <code className="mono">firn optimizer --streams 4</code>
            </Empty>
          )
        }
      />
      <StreamDrawer id={get('stream')} close={() => set({ stream: undefined })} />
    </Page>
  );
}
