import { Menu } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';

import { answered, api } from '../../api/client';
import { notificationRules } from '../../api/notification-queries';
import { asProblem } from '../../api/problem';
import type { NotificationRule } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { ConfirmDialog, useDo } from '../../components/confirm-dialog';
import { DataTable, type Column } from '../../components/data-table';
import { Count, useNow, When } from '../../components/figures';
import { Empty } from '../../components/notes';
import { HEALTHY, Mark } from '../../components/status-icons';
import { many, secondsBetween } from '../../lib/format';
import { channelLabel, isEvent, kindLabel } from '../../lib/notifications';
import { paths } from '../../lib/paths';
import { firn } from '../../lib/terminal';
import { NEEDS } from './needs';
import { Delivery } from './state';

const SILENCES = [
  { label: '1 hour', minutes: 60 },
  { label: '8 hours', minutes: 480 },
  { label: '1 day', minutes: 1_440 },
  { label: '7 days', minutes: 10_080 },
];

function columns(drop: (rule: NotificationRule) => void): Column<NotificationRule>[] {
  return [
    { key: 'name', title: 'Rule', cell: (row) => <span className="mono">{row.name}</span> },
    { key: 'kinds', title: 'Reports', cell: (row) => <Kinds rule={row} /> },
    { key: 'to', title: 'To', cell: (row) => <Target rule={row} /> },
    { key: 'open', title: 'Open', cell: (row) => <Backlog rule={row} />, right: true, help: 'problems that it has reported and that go on; of table events, those still to be sent' },
    { key: 'last', title: 'Last message', cell: (row) => <Last rule={row} />, wide: true },
    { key: 'created', title: 'Created', cell: (row) => <When at={row.created_at} />, right: true, extra: true },
    { key: 'by', title: 'By', cell: (row) => row.created_by ?? <span className="dim">–</span>, extra: true },
    { key: 'act', title: '', cell: (row) => <Actions rule={row} drop={drop} />, right: true },
  ];
}

function Kinds({ rule }: { rule: NotificationRule }) {
  return (
    <div className="wrap-anywhere" style={{ minWidth: 150, maxWidth: 320 }}>
      {rule.kinds.map(kindLabel).join(', ')}
      <div className="dim">
        {rule.catalog === null ? 'all catalogs' : `catalog ${rule.catalog}`}
        {rule.tables.length > 0 ? `, ${rule.tables.join(', ')}` : ''}
        {rule.resolved && !rule.kinds.some(isEvent) ? ', and when they end' : ''}
      </div>
    </div>
  );
}

/** Open problems of a rule; of a rule of table events, the events that are still to be sent. And what was given up. */
function Backlog({ rule }: { rule: NotificationRule }) {
  const waiting = rule.kinds.some(isEvent);
  return (
    <div>
      <Count value={waiting ? rule.waiting : rule.open} />
      {waiting && <div className="dim">waiting</div>}
      {rule.failed > 0 && <div className="bad">{many(rule.failed, 'message')} not sent</div>}
    </div>
  );
}

function Target({ rule }: { rule: NotificationRule }) {
  return (
    <div className="wrap-anywhere" style={{ minWidth: 150 }}>
      {channelLabel(rule.channel)}
      <div className="mono dim">{rule.address ?? rule.recipients.join(', ')}</div>
    </div>
  );
}

function Last({ rule }: { rule: NotificationRule }) {
  const now = useNow();
  const silent = rule.silenced_until !== null && secondsBetween(new Date(now).toISOString(), Date.parse(rule.silenced_until)) > 0;
  return (
    <div style={{ minWidth: 190 }}>
      {silent && (
        <div className="warn">
          silent, ends <When at={rule.silenced_until} />
        </div>
      )}
      {rule.last === null ? (
        <span className="dim">none yet</span>
      ) : (
        <>
          <div className="wrap-anywhere">{rule.last.title}</div>
          <Delivery message={rule.last} />
        </>
      )}
    </div>
  );
}

/** Sends a test message, and shows what the receiver answered. */
export function TestButton({ rule }: { rule: string }) {
  const test = useMutation({ mutationFn: () => answered(api.POST('/notifications/rules/{rule}/test', { params: { path: { rule } } })) });
  const failure = test.error === null ? (test.data?.error ?? null) : asProblem(test.error).message;
  return (
    <div>
      <ActionButton size="compact-xs" variant="default" needs={NEEDS} loading={test.isPending} onClick={() => test.mutate()} aria-label={`Send a test message of ${rule}`}>
        Send test
      </ActionButton>
      <div role="status" style={{ maxWidth: 260 }}>
        {failure !== null && <div className="bad wrap-anywhere">{failure}</div>}
        {test.data?.accepted === true && <Mark look={{ ...HEALTHY, says: 'accepted' }} />}
      </div>
    </div>
  );
}

function Actions({ rule, drop }: { rule: NotificationRule; drop: (rule: NotificationRule) => void }) {
  return (
    <div className="stack" style={{ gap: 6, alignItems: 'flex-end' }}>
      <TestButton rule={rule.name} />
      <More rule={rule} drop={drop} />
    </div>
  );
}

function More({ rule, drop }: { rule: NotificationRule; drop: (rule: NotificationRule) => void }) {
  const minutes = useRef(0);
  const silence = useDo('The rule is not changed', () =>
    answered(api.POST('/notifications/rules/{rule}/silence', { params: { path: { rule: rule.name } }, body: { minutes: minutes.current } })),
  );
  const retry = useDo('Nothing is sent again', () => answered(api.POST('/notifications/rules/{rule}/retry', { params: { path: { rule: rule.name } } })));
  const choose = (chosen: number) => {
    minutes.current = chosen;
    silence.mutate();
  };
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionButton size="compact-xs" variant="default" needs={NEEDS} loading={silence.isPending} aria-label={`Silence or drop ${rule.name}`}>
          More
        </ActionButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>Keep messages back for</Menu.Label>
        {SILENCES.map(({ label, minutes: chosen }) => (
          <Menu.Item key={chosen} onClick={() => choose(chosen)}>
            {label}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item disabled={rule.silenced_until === null} onClick={() => choose(0)}>
          End the silence
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item disabled={rule.failed === 0} onClick={() => retry.mutate()}>
          Send failed messages again
        </Menu.Item>
        <Menu.Item color="red" onClick={() => drop(rule)}>
          Drop the rule…
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

/** All rules, each with its newest message. */
export function Rules() {
  const { data, error } = useQuery(notificationRules(true));
  const queries = useQueryClient();
  const [dropping, drop] = useState<NotificationRule | undefined>();
  const name = dropping?.name ?? '';
  return (
    <>
      <DataTable
        name="rules"
        title="Rules"
        columns={columns(drop)}
        rows={data}
        error={error}
        id={(row) => row.name}
        link={(row) => paths.notifications(row.name)}
        empty={<Empty title="No rules">Create one to hear of failed jobs, lost optimizers and late tables without looking at this console.</Empty>}
      />
      <ConfirmDialog
        title={`Drop the rule ${name}`}
        opened={dropping !== undefined}
        close={() => drop(undefined)}
        yes="Drop it"
        danger
        command={firn('notification rule drop', [name])}
        act={() => answered(api.DELETE('/notifications/rules/{rule}', { params: { path: { rule: name } } }))}
        done={() => void queries.invalidateQueries()}
      >
        It sends nothing any more, and gives up messages that wait. Its history stays.
      </ConfirmDialog>
    </>
  );
}
