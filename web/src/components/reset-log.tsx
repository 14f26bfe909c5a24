import { TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { answered, api } from '../api/client';
import { plannedReset } from '../api/stream-queries';
import type { LogReset } from '../api/types';
import { positionLines, positionText, resetTarget, type ResetTo } from '../lib/streams';
import { firn } from '../lib/terminal';
import { ActionButton } from './action-button';
import { Choice } from './choice';
import { ConfirmDialog } from './confirm-dialog';
import { DataTable, type Column } from './data-table';
import { Count } from './figures';
import { ProblemNote } from './notes';

type Step = LogReset['partitions'][number];

const TARGETS: { value: ResetTo; label: string }[] = [
  { value: 'earliest', label: 'Oldest record' },
  { value: 'latest', label: 'Newest record' },
  { value: 'time', label: 'A time' },
  { value: 'offsets', label: 'Offsets' },
];

/** More partitions would fill the page. */
const MOST_STEPS = 20;

const STEPS: Column<Step>[] = [
  { key: 'partition', title: 'Partition', cell: (row) => <Count value={row.partition} />, right: true },
  { key: 'start', title: 'From', cell: (row) => <Count value={row.start} />, right: true },
  { key: 'position', title: 'To', cell: (row) => <Count value={row.position} />, right: true },
  { key: 'left', title: 'Left out', cell: (row) => <Count value={row.left_out} />, right: true, help: 'at most: offsets have gaps' },
  { key: 'again', title: 'Again', cell: (row) => <Count value={row.repeated} />, right: true, help: 'at most: offsets have gaps' },
];

/** Sets the position of a log. It shows first what that does; the server refuses it if the table is elsewhere by then. */
export function ResetLogDialog({ catalog, table, close }: { catalog: string; table: string; close: () => void }) {
  const [to, choose] = useState<ResetTo>('earliest');
  const [target, look] = useState<string | null>('earliest');
  const planned = useQuery(plannedReset(catalog, table, target));
  const plan = target === null ? undefined : planned.data;
  const reset = async (shown: LogReset) => {
    try {
      await answered(
        api.POST('/catalogs/{catalog}/tables/{table}/log/reset', {
          params: { path: { catalog, table } },
          body: { to: shown.position, start: shown.start ?? 'none' },
        }),
      );
    } catch (error) {
      await planned.refetch(); // the refusal stays in sight, beside the reset that is possible now
      throw error;
    }
  };
  return (
    <ConfirmDialog
      title={`Reset the log of ${table}`}
      opened
      close={close}
      yes="Reset it"
      danger
      command={plan === undefined ? null : firn('log reset', [table], { catalog, to: to === 'offsets' || to === 'time' ? target : to })}
      disabledReason={plan === undefined || planned.error !== null ? 'Choose a position that the log can have.' : null}
      act={() => (plan === undefined ? Promise.resolve() : reset(plan))}
    >
      <div className="stack">
        <div>Drains go on from the position that you choose. A drain that runs now ends.</div>
        <Choice
          label="where drains go on"
          value={to}
          set={(value) => {
            choose(value as ResetTo);
            look(value === 'earliest' || value === 'latest' ? value : null);
          }}
          options={TARGETS}
        />
        {(to === 'time' || to === 'offsets') && <Target key={to} to={to} look={look} />}
        {target !== null && planned.isLoading && <span className="dim">Looking at what the reset would do…</span>}
        {target !== null && planned.error !== null && <ProblemNote error={planned.error} what="cannot plan the reset" />}
        {plan !== undefined && planned.error === null && <Plan plan={plan} />}
      </div>
    </ConfirmDialog>
  );
}

function Target({ to, look }: { to: 'time' | 'offsets'; look: (target: string | null) => void }) {
  const [typed, type] = useState('');
  const target = resetTarget(to, typed);
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    look(target);
  };
  return (
    <form className="row row-wrap" onSubmit={submit}>
      <TextInput
        className="grow"
        aria-label={to === 'time' ? 'the first records since this time' : 'the next offset of each partition'}
        placeholder={to === 'time' ? '' : 'orders:0:1488,1:1512'}
        type={to === 'time' ? 'datetime-local' : 'text'}
        step={1}
        value={typed}
        onChange={(event) => {
          type(event.currentTarget.value);
          look(null);
        }}
        classNames={{ input: 'mono' }}
      />
      <ActionButton type="submit" variant="default" disabledReason={target === null ? 'Enter a target first.' : null}>
        Preview
      </ActionButton>
    </form>
  );
}

function Plan({ plan }: { plan: LogReset }) {
  const more = plan.partitions.length - MOST_STEPS;
  return (
    <div className="stack">
      <div className="wrap-anywhere">
        From <Position text={plan.start} /> to <Position text={plan.position} />.
      </div>
      {plan.warnings.length > 0 && (
        <ul style={{ margin: 0, paddingLeft: 18 }}>
          {plan.warnings.map((warning) => (
            <li key={warning}>{warning}</li>
          ))}
        </ul>
      )}
      <DataTable plain name="steps" columns={STEPS} rows={plan.partitions.slice(0, MOST_STEPS)} id={(row) => String(row.partition)} empty={null} />
      {more > 0 && <span className="dim">{`${more} more`}</span>}
    </div>
  );
}

const Position = ({ text }: { text: string | null }) => (
  <span className="mono" title={text === null ? undefined : positionLines(text)}>
    {positionText(text)}
  </span>
);
