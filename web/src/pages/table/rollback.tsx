import { Modal, SegmentedControl, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answered, api } from '../../api/client';
import type { Rollback, RollbackIn, Snapshot } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { DataTable, type Column } from '../../components/data-table';
import { Count, When } from '../../components/figures';
import { InTerminal } from '../../components/in-terminal';
import { Note, ProblemNote } from '../../components/notes';
import { firn } from '../../lib/terminal';

const numberOf = (snapshot: Snapshot, key: string): number => Number(snapshot.summary[key] ?? 0);

const COLUMNS: Column<Snapshot>[] = [
  { key: 'id', title: 'Snapshot', cell: (row) => <span className="mono">{row.snapshot_id}</span> },
  { key: 'did', title: 'Operation', cell: (row) => row.operation },
  { key: 'added', title: 'Rows added', cell: (row) => <Count value={numberOf(row, 'added-records')} />, right: true },
  { key: 'removed', title: 'Rows removed', cell: (row) => <Count value={numberOf(row, 'deleted-records')} />, right: true },
  { key: 'at', title: 'When', cell: (row) => <When at={row.committed_at} />, right: true },
];

interface RollbackProps {
  catalog: string;
  table: string;
  /** The snapshot to go to; without one the reader says where. */
  target: string | undefined;
  opened: boolean;
  close: () => void;
}

/** Says exactly what leaves main before anything does. */
export function RollbackDialog({ catalog, table, target, opened, close }: RollbackProps) {
  return (
    <Modal opened={opened} onClose={close} size="xl" title={`Roll back ${table}`} closeButtonProps={{ 'aria-label': 'close' }}>
      {opened && (target === undefined ? <Choose catalog={catalog} table={table} close={close} /> : <DryRun catalog={catalog} table={table} body={{ snapshot_id: target }} close={close} />)}
    </Modal>
  );
}

interface PartProps {
  catalog: string;
  table: string;
  close: () => void;
}

function Choose({ catalog, table, close }: PartProps) {
  const [by, setBy] = useState('snapshot');
  const [typed, type] = useState('');
  const [body, look] = useState<RollbackIn | undefined>();
  const wanted = (): RollbackIn => (by === 'time' ? { timestamp: new Date(typed).toISOString() } : { snapshot_id: typed.trim() });
  return (
    <div className="stack">
      <form
        className="row row-wrap"
        onSubmit={(event) => {
          event.preventDefault();
          look(wanted());
        }}
      >
        <SegmentedControl
          aria-label="how the state is named"
          value={by}
          onChange={(value) => {
            setBy(value);
            type('');
            look(undefined);
          }}
          data={[
            { value: 'snapshot', label: 'To a snapshot or tag' },
            { value: 'time', label: 'To a time' },
          ]}
        />
        <TextInput
          key={by}
          className="grow"
          aria-label={by === 'time' ? 'what readers saw at this time' : 'snapshot, branch or tag'}
          placeholder={by === 'time' ? '' : 'Snapshot, branch or tag'}
          type={by === 'time' ? 'datetime-local' : 'text'}
          step={1}
          value={typed}
          onChange={(event) => {
            type(event.currentTarget.value);
            look(undefined);
          }}
          data-autofocus
        />
        <ActionButton type="submit" variant="default" disabledReason={typed.trim() === '' ? 'Choose a target first.' : null}>
          Preview
        </ActionButton>
      </form>
      {body !== undefined && <DryRun catalog={catalog} table={table} body={body} close={close} />}
    </div>
  );
}

function DryRun({ catalog, table, body, close }: PartProps & { body: RollbackIn }) {
  const queries = useQueryClient();
  const post = (dry: boolean, sent: RollbackIn): Promise<Rollback> =>
    answered(api.POST('/catalogs/{catalog}/tables/{table}/rollback', { params: { path: { catalog, table }, query: { dry_run: dry } }, body: sent }));
  const dry = useQuery({ queryKey: ['dry-run', catalog, table, 'rollback', body], queryFn: () => post(true, body), gcTime: 0, retry: false });
  const plan = dry.data;
  // Exactly what was shown, or nothing: a commit made meanwhile refuses it.
  const doing = useMutation({
    mutationFn: (shown: Rollback) => post(false, { snapshot_id: shown.target, expected_head: shown.head }),
    onSuccess: async (done) => {
      await queries.invalidateQueries();
      notifications.show({ title: `${table} is rolled back`, message: `main is at snapshot ${done.target}` });
      close();
    },
  });
  const again = async () => {
    doing.reset();
    await dry.refetch();
  };
  return (
    <div className="stack">
      {plan && <Plan plan={plan} />}
      {(dry.error ?? doing.error) && <ProblemNote error={dry.error ?? doing.error} />}
      {plan?.changes && <InTerminal command={firn('table rollback', [table], { catalog, 'to-snapshot': plan.target })} />}
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <ActionButton variant="default" onClick={close}>
          Cancel
        </ActionButton>
        {doing.error !== null && (
          <ActionButton variant="default" onClick={() => void again()}>
            Preview again
          </ActionButton>
        )}
        <ActionButton
          loading={doing.isPending || dry.isFetching}
          disabledReason={plan === undefined ? 'Preview the rollback first.' : plan.changes ? null : 'main is at this snapshot already.'}
          onClick={() => plan && doing.mutate(plan)}
        >
          Roll back
        </ActionButton>
      </div>
    </div>
  );
}

function Plan({ plan }: { plan: Rollback }) {
  if (!plan.changes) return <Note title="Nothing to do">{plan.description}.</Note>;
  return (
    <>
      <div>
        It would <b>{plan.description}</b>. The snapshot was written <When at={plan.target_at} />.
      </div>
      <Moved title="Removed from main" part={plan.leaving} />
      <Moved title="Restored to main" part={plan.returning} />
      {Object.entries(plan.held).map(([snapshot, names]) => (
        <div key={snapshot}>
          Snapshot <span className="mono">{snapshot}</span> stays for as long as <span className="mono">{names.join(', ')}</span> holds it.
        </div>
      ))}
      <div className="dim">
        No file is deleted. Removed snapshots stay in the table until they expire; until then another rollback restores them. Columns and
        properties stay as they are.
      </div>
    </>
  );
}

function Moved({ title, part }: { title: string; part: Rollback['leaving'] }) {
  if (part.commits === 0) return null;
  const more = part.commits - part.newest.length;
  return (
    <section>
      <b>{title}</b>
      <DataTable plain name={title} columns={COLUMNS} rows={part.newest} id={(row) => row.snapshot_id} empty={null} />
      {more > 0 && <div className="dim">and {more.toLocaleString('en-US')} older ones</div>}
    </section>
  );
}
