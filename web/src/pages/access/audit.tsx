import { auditText } from '../../lib/audit';
import { Select, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Fragment, useEffect, useRef } from 'react';

import { audit, type AuditFilter } from '../../api/access';
import type { AuditEntry, Verdict } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { When } from '../../components/figures';
import { VerdictMark } from '../../components/status-icons';
import { useMe } from '../../components/current-user';
import { Empty } from '../../components/notes';
import { useUrlState } from '../../lib/url-state';
import { AccessFrame, AdminsOnly } from './frame';

const VERDICTS: { value: '' | Verdict; label: string }[] = [
  { value: '', label: 'Every decision' },
  { value: 'allowed', label: 'allowed' },
  { value: 'forbidden', label: 'forbidden' },
  { value: 'hidden', label: 'hidden' },
  { value: 'unauthenticated', label: 'not signed in' },
];
const WHAT = [
  { value: '', label: 'Changes and refusals' },
  { value: 'all', label: 'Reads and changes' },
  { value: 'changes', label: 'Changes' },
  { value: 'reads', label: 'Reads' },
];
/** Reads that were allowed, the console's own among them, would crowd out the rest: they are shown on request. */
const WHAT_OF: Record<string, AuditFilter> = { '': { notable: true }, changes: { changes: true }, reads: { changes: false } };
const SPANS = [
  { value: '', label: 'At any time' },
  { value: '3600', label: 'In the last hour' },
  { value: '86400', label: 'In the last day' },
  { value: '604800', label: 'In the last week' },
];

const COLUMNS: Column<AuditEntry>[] = [
  { key: 'at', title: 'When', cell: (row) => <When at={row.at} /> },
  { key: 'who', title: 'Who', cell: (row) => (row.principal === null ? <span className="dim">unknown</span> : <span className="mono">{row.principal}</span>) },
  { key: 'what', title: 'What', cell: (row) => <What entry={row} /> },
  { key: 'target', title: 'On', cell: (row) => <Target entry={row} /> },
  { key: 'decision', title: 'Decision', cell: (row) => <VerdictMark verdict={row.verdict} /> },
  { key: 'status', title: 'Status', cell: (row) => <Status entry={row} />, right: true, help: 'HTTP status' },
  { key: 'address', title: 'From', cell: (row) => <span className="mono dim">{row.address}</span>, extra: true },
  { key: 'token', title: 'Token', cell: (row) => <span className="mono dim">{row.token_id ?? '–'}</span>, extra: true },
  { key: 'request', title: 'Request', cell: (row) => <span className="mono dim">{row.request_id}</span>, extra: true },
];

function What({ entry }: { entry: AuditEntry }) {
  return (
    <div className={entry.changes ? '' : 'dim'} style={{ minWidth: 260 }} title={`${entry.method} ${entry.route}`}>
      {auditText(entry)}
    </div>
  );
}

function Target({ entry }: { entry: AuditEntry }) {
  return (
    <div className="mono" style={{ minWidth: 120 }}>
      <Breakable text={entry.target} at="." />
      {entry.detail !== '' && <div className="dim">{entry.detail}</div>}
    </div>
  );
}

/** May be broken between its parts, and within one only where that is too long for a line. */
function Breakable({ text, at }: { text: string; at: string }) {
  return (
    <span style={{ overflowWrap: 'break-word' }}>
      {text.split(at).map((part, place) => (
        <Fragment key={place}>
          {place > 0 && <wbr />}
          {place > 0 && at}
          {part}
        </Fragment>
      ))}
    </span>
  );
}

function Status({ entry }: { entry: AuditEntry }) {
  if (entry.status !== null) return <>{entry.status}</>;
  return entry.changes ? (
    <span className="warn" title="The server did not see it end: the table’s history shows whether it happened.">
      unknown
    </span>
  ) : (
    <span className="dim">–</span>
  );
}

/** What was asked, by whom, on what, and what was decided. */
export function AuditPage() {
  const { admin } = useMe();
  const [get, set] = useUrlState();
  const what = get('what');
  const filter: AuditFilter = {
    ...given('principal', get('who')),
    ...given('target', get('on')),
    ...given('verdict', get('decision') as Verdict | undefined),
    ...WHAT_OF[what ?? ''],
  };
  const since = get('since');
  const found = useInfiniteQuery(audit(filter, since === undefined ? undefined : Number(since), admin));
  const filtered = ['who', 'on', 'decision', 'what', 'since'].some((name) => get(name) !== undefined);
  if (!admin) {
    return (
      <AccessFrame>
        <AdminsOnly what="the audit log" />
      </AccessFrame>
    );
  }
  return (
    <AccessFrame>
      <div className="row row-wrap">
        <Text name="who" label="who" placeholder="User or service" />
        <Text name="on" label="on what" placeholder="lake.sales.orders" wide />
        <Select aria-label="decision" w={150} value={get('decision') ?? ''} onChange={(value) => set({ decision: value ?? undefined })} data={VERDICTS} />
        <Select aria-label="reads or changes" w={200} value={what ?? ''} onChange={(value) => set({ what: value ?? undefined })} data={WHAT} />
        <Select aria-label="since" w={150} value={since ?? ''} onChange={(value) => set({ since: value ?? undefined })} data={SPANS} />
      </div>
      <DataTable
        name="audit"
        columns={COLUMNS}
        rows={found.data?.pages.flatMap((page) => page.items)}
        error={found.error}
        id={(row) => String(row.id)}
        more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
        empty={
          <Empty title={filtered ? 'No matching requests' : 'No requests yet'}>
            Reads appear here after some seconds, changes and refusals at once.
          </Empty>
        }
      />
    </AccessFrame>
  );
}

function given<Key extends string, Value>(key: Key, value: Value | undefined): Partial<Record<Key, Value>> {
  return value === undefined ? {} : ({ [key]: value } as Record<Key, Value>);
}

/** A filter by a whole name, kept in the address. */
function Text({ name, label, placeholder, wide = false }: { name: string; label: string; placeholder: string; wide?: boolean }) {
  const [get, set] = useUrlState();
  const value = get(name) ?? '';
  const field = useRef<HTMLInputElement>(null);
  const find = useDebouncedCallback((text: string) => set({ [name]: text.trim() }), 300);
  // Back, forward and links change the address from outside.
  useEffect(() => {
    if (field.current !== null && document.activeElement !== field.current) field.current.value = value;
  }, [value]);
  return (
    <TextInput
      ref={field}
      aria-label={label}
      placeholder={placeholder}
      defaultValue={value}
      w={wide ? 240 : 160}
      onChange={(event) => find(event.currentTarget.value)}
      classNames={{ input: 'mono' }}
    />
  );
}
