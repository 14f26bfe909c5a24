import { Button, Modal, MultiSelect, Select, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconLock } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { answered, api } from '../../api/client';
import { tableBlockers } from '../../api/queries';
import type { Blocker, JobKind, Table } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { useDo } from '../../components/confirm-dialog';
import { When } from '../../components/figures';
import { InTerminal } from '../../components/in-terminal';
import { Note, ProblemNote } from '../../components/notes';
import { need, onTable } from '../../lib/access';
import { JOB_KINDS } from '../../lib/job-kinds';
import { fullName } from '../../lib/paths';
import { firn } from '../../lib/terminal';

const needsOf = (table: Table) => need(onTable(table.catalog, fullName(table)), 'maintain');
const at = (table: Table) => ({ catalog: table.catalog, table: fullName(table) });

/** What keeps jobs from the table now, each with a way to lift it. */
export function Blockers({ table }: { table: Table }) {
  const { data, error } = useQuery(tableBlockers(table.catalog, fullName(table)));
  if (error && data === undefined) return <ProblemNote error={error} what="cannot load what pauses optimization" />;
  return data?.map((blocker) => <Held key={blocker.id} table={table} blocker={blocker} />);
}

/** More kinds of jobs than this are a number, and named on hover. */
const MOST_NAMED = 4;

function Held({ table, blocker }: { table: Table; blocker: Blocker }) {
  const lift = useDo('cannot resume optimization', () =>
    answered(api.DELETE('/catalogs/{catalog}/tables/{table}/blockers', { params: { path: at(table), query: { blocker: blocker.id } } })),
  );
  const what = blocker.kinds.length === 0 ? 'Jobs' : blocker.kinds.length > MOST_NAMED ? `Jobs of ${blocker.kinds.length} kinds` : `Jobs of the kind ${blocker.kinds.join(', ')}`;
  return (
    <Note
      tone="warn"
      title={
        <>
          <span title={blocker.kinds.join(', ')}>{what}</span> are paused for this table until <When at={blocker.until} />
        </>
      }
      action={
        <ActionButton variant="default" needs={needsOf(table)} loading={lift.isPending} onClick={() => lift.mutate()} aria-label={`resume: ${blocker.reason}`}>
          Resume
        </ActionButton>
      }
    >
      {blocker.reason}
      <span className="dim">
        {' '}
        – {blocker.set_by === null ? 'set' : `set by ${blocker.set_by}`} <When at={blocker.created_at} />
      </span>
    </Note>
  );
}

/** Locks a table for a while, with a reason. */
export function PauseOptimization({ table }: { table: Table }) {
  const [opened, { open, close }] = useDisclosure(false);
  return (
    <>
      <ActionButton variant="default" needs={needsOf(table)} leftSection={<IconLock size={13} aria-hidden />} onClick={open}>
        Pause optimization
      </ActionButton>
      <Modal opened={opened} onClose={close} title={`Pause optimization of ${fullName(table)}`} closeButtonProps={{ 'aria-label': 'close' }}>
        <PauseForm table={table} close={close} />
      </Modal>
    </>
  );
}

const HOUR_MS = 3_600_000;
const SPANS = [
  { value: '1', label: '1 hour' },
  { value: '4', label: '4 hours' },
  { value: '12', label: '12 hours' },
  { value: '24', label: '1 day' },
  { value: '72', label: '3 days' },
  { value: '168', label: '1 week' },
];

function PauseForm({ table, close }: { table: Table; close: () => void }) {
  const queries = useQueryClient();
  const [reason, setReason] = useState('');
  const [hours, setHours] = useState('4');
  const [kinds, setKinds] = useState<string[]>([]);
  const lock = useMutation({
    mutationFn: () =>
      answered(
        api.POST('/catalogs/{catalog}/tables/{table}/blockers', {
          params: { path: at(table) },
          body: { reason: reason.trim(), until: new Date(Date.now() + Number(hours) * HOUR_MS).toISOString(), kinds: kinds as JobKind[] },
        }),
      ),
    onSuccess: async () => {
      await queries.invalidateQueries();
      close();
    },
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    lock.mutate();
  };
  return (
    <form onSubmit={submit} className="stack">
      <div>No new job starts on this table until then. A running job continues; reads and writes are not affected.</div>
      <TextInput label="Reason" placeholder="such as a backfill" value={reason} onChange={(event) => setReason(event.currentTarget.value)} data-autofocus />
      <Select label="For" data={SPANS} value={hours} onChange={(value) => setHours(value ?? hours)} allowDeselect={false} />
      <MultiSelect label="Kinds of jobs" placeholder={kinds.length === 0 ? 'all kinds' : ''} data={JOB_KINDS} value={kinds} onChange={setKinds} />
      {lock.error && <ProblemNote error={lock.error} />}
      {reason.trim() !== '' && <InTerminal command={firn('table block', [fullName(table)], { catalog: table.catalog, for: `${hours} h`, reason: reason.trim(), kind: kinds })} />}
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <Button variant="default" onClick={close}>
          Cancel
        </Button>
        <ActionButton type="submit" loading={lock.isPending} disabledReason={reason.trim() === '' ? 'Enter a reason.' : null}>
          Pause
        </ActionButton>
      </div>
    </form>
  );
}
