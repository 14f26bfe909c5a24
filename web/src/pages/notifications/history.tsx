import { Select } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { answered, api } from '../../api/client';
import { notificationHistory } from '../../api/notification-queries';
import type { Notification, NotificationState } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { useDo } from '../../components/confirm-dialog';
import { DataTable, type Column } from '../../components/data-table';
import { When } from '../../components/figures';
import { Empty } from '../../components/notes';
import { isEvent, kindLabel } from '../../lib/notifications';
import { useUrlState } from '../../lib/url-state';
import { NEEDS } from './needs';
import { Delivery } from './state';

const STATES: { value: string; label: string }[] = [
  { value: '', label: 'Every state' },
  { value: 'waiting', label: 'being sent' },
  { value: 'sent', label: 'sent' },
  { value: 'silenced', label: 'silenced' },
  { value: 'failed', label: 'not sent' },
];

const COLUMNS: Column<Notification>[] = [
  { key: 'message', title: 'Message', cell: (row) => <Text message={row} />, wide: true },
  { key: 'rule', title: 'Rule', cell: (row) => <span className="mono">{row.rule}</span> },
  { key: 'delivery', title: 'Delivery', cell: (row) => <Delivery message={row} /> },
  { key: 'problem', title: 'Problem', cell: (row) => <ProblemState message={row} /> },
  { key: 'at', title: 'Reported', cell: (row) => <When at={row.created_at} />, right: true },
  { key: 'kind', title: 'Kind', cell: (row) => kindLabel(row.kind), extra: true },
  { key: 'id', title: 'Id', cell: (row) => <span className="mono dim">{row.id}</span>, extra: true },
  { key: 'act', title: '', cell: (row) => <Retry message={row} />, right: true },
];

function Text({ message }: { message: Notification }) {
  return (
    <div className="wrap-anywhere" style={{ minWidth: 220 }}>
      <Link to={message.link}>{message.title}</Link>
      <div className="dim" style={{ whiteSpace: 'pre-line' }}>
        {message.message}
      </div>
    </div>
  );
}

function ProblemState({ message }: { message: Notification }) {
  if (message.kind === 'migration_ended' || isEvent(message.kind)) return <span className="dim">–</span>;
  if (message.ended_at === null) return <span className="warn">goes on</span>;
  return (
    <span className="dim">
      ended <When at={message.ended_at} />
    </span>
  );
}

function Retry({ message }: { message: Notification }) {
  const retry = useDo('The message is not sent again', () =>
    answered(api.POST('/notifications/{notification_id}/retry', { params: { path: { notification_id: message.id } } })),
  );
  if (message.state !== 'failed') return null;
  return (
    <ActionButton size="compact-xs" variant="default" needs={NEEDS} loading={retry.isPending} onClick={() => retry.mutate()} aria-label={`Retry ${message.title}`}>
      Retry
    </ActionButton>
  );
}

/** What rules have sent, newest first. */
export function History() {
  const [get, set] = useUrlState();
  const [rule, state] = [get('rule'), get('state')];
  const listed = useInfiniteQuery(
    notificationHistory({ ...(rule === undefined ? {} : { rule }), ...(state === undefined ? {} : { state: [state as NotificationState] }) }, true),
  );
  return (
    <DataTable
      name="messages"
      title={rule === undefined ? 'Messages' : `Messages of ${rule}`}
      aside={<Select aria-label="state of messages" size="xs" w={140} value={state ?? ''} data={STATES} onChange={(value) => set({ state: value === '' ? undefined : (value ?? undefined) })} />}
      columns={COLUMNS}
      rows={listed.data?.pages.flatMap((page) => page.items)}
      error={listed.error}
      id={(row) => row.id}
      more={{ has: listed.hasNextPage, loading: listed.isFetchingNextPage, load: () => void listed.fetchNextPage() }}
      empty={<Empty title="No messages">A message appears here when a rule reports a problem or a table event, with the reason if it could not be sent.</Empty>}
    />
  );
}
