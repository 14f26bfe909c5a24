import { Modal, NumberInput, SegmentedControl, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answered, api } from '../../api/client';
import { refs as refsQuery } from '../../api/queries';
import type { Ref, RefIn, Table } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { ConfirmDialog, useDo } from '../../components/confirm-dialog';
import { DataTable, type Column } from '../../components/data-table';
import { Bytes, Count, Span, When } from '../../components/figures';
import { InTerminal } from '../../components/in-terminal';
import { Empty, ProblemNote } from '../../components/notes';
import { need, onTable } from '../../lib/access';
import { many } from '../../lib/format';
import { fullName } from '../../lib/paths';
import { firn } from '../../lib/terminal';
import { useUrlState } from '../../lib/url-state';
import styles from './changes.module.css';

const DAY_MS = 86_400_000;

function Kept({ reference }: { reference: Ref }) {
  const { max_ref_age_ms: age, max_snapshot_age_ms: snapshots, min_snapshots_to_keep: least } = reference;
  if (age === null && snapshots === null && least === null) return <span className="dim">{reference.name === 'main' ? 'always' : 'until it is dropped'}</span>;
  return (
    <span>
      {age !== null && <Span seconds={age / 1000} />}
      {snapshots !== null && <> snapshots <Span seconds={snapshots / 1000} /></>}
      {least !== null && ` at least ${many(least, 'snapshot')}`}
    </span>
  );
}

const against = (row: Ref): string => {
  if (row.name === 'main') return '–';
  const parts = [row.ahead > 0 ? `${row.ahead} ahead` : '', row.behind > 0 ? `${row.behind} behind` : ''];
  return parts.filter((part) => part !== '').join(', ') || 'the same';
};

const columns = (table: Table, drop: (row: Ref) => void): Column<Ref>[] => [
  { key: 'name', title: 'Name', cell: (row) => <span className="mono">{row.name}</span>, wide: true },
  { key: 'type', title: 'Type', cell: (row) => row.type },
  { key: 'snapshot', title: 'Snapshot', cell: (row) => <span className="mono">{row.snapshot_id}</span> },
  { key: 'main', title: 'Against main', cell: (row) => <span className={row.ahead > 0 ? '' : 'dim'}>{against(row)}</span> },
  { key: 'rows', title: 'Rows', cell: (row) => <Count value={row.totals.rows} />, right: true },
  { key: 'size', title: 'Size', cell: (row) => <Bytes value={row.totals.bytes} />, right: true },
  { key: 'kept', title: 'Kept', cell: (row) => <Kept reference={row} /> },
  { key: 'at', title: 'Written', cell: (row) => <When at={row.committed_at} />, right: true },
  { key: 'actions', title: '', cell: (row) => <RefActions table={table} reference={row} drop={drop} />, right: true },
];

/** Branches and tags: what each points at, and how it stands to main. */
export function RefsTab({ table }: { table: Table }) {
  const name = fullName(table);
  const { data, error } = useQuery(refsQuery(table.catalog, name));
  const [get, set] = useUrlState();
  const [dropping, drop] = useState<Ref | undefined>();
  const reason = table.allowed_actions.includes('tag') ? null : (table.unavailable_actions.tag ?? 'Not available now.');
  return (
    <>
      <div className={styles.head}>
        <span className="dim">
          {table.kind === 'keyed' ? 'Tags name snapshots of the base store, whose rows are merged.' : 'A tag keeps a snapshot from expiring; engines write to a branch by its name.'}
        </span>
        <ActionButton variant="default" needs={need(onTable(table.catalog, name), 'write')} disabledReason={reason ?? (data?.length === 0 ? 'The table has no snapshot yet.' : null)} onClick={() => set({ new: 'main' })}>
          {table.allowed_actions.includes('branch') ? 'New tag or branch' : 'New tag'}
        </ActionButton>
      </div>
      <DataTable
        plain
        name="branches and tags"
        columns={columns(table, drop)}
        rows={data}
        error={error}
        id={(row) => row.name}
        empty={<Empty title="No branch or tag yet">Main begins with the first write.</Empty>}
      />
      <NewRef table={table} at={get('new')} close={() => set({ new: undefined })} />
      <ConfirmDialog
        title={`Drop ${dropping?.type ?? ''} ${dropping?.name ?? ''}`}
        opened={dropping !== undefined}
        close={() => drop(undefined)}
        yes="Drop it"
        danger
        command={firn('table drop-ref', [name, dropping?.name ?? ''], { catalog: table.catalog })}
        act={() =>
          answered(
            api.DELETE('/catalogs/{catalog}/tables/{table}/refs/{name}', {
              params: { path: { catalog: table.catalog, table: name, name: dropping?.name ?? '' } },
            }),
          )
        }
      >
        Queries by this name fail afterwards.{' '}
        {dropping !== undefined && dropping.ahead > 0 ? `Its ${many(dropping.ahead, 'snapshot')} that main does not have stay only until they expire.` : 'Main has all of its snapshots.'}
      </ConfirmDialog>
    </>
  );
}

function RefActions({ table, reference, drop }: { table: Table; reference: Ref; drop: (row: Ref) => void }) {
  const path = { catalog: table.catalog, table: fullName(table) };
  const forward = (branch: string, to: string) =>
    answered(api.POST('/catalogs/{catalog}/tables/{table}/refs/{name}/fast-forward', { params: { path: { ...path, name: branch } }, body: { to } }));
  const catchUp = useDo(`cannot fast-forward ${reference.name}`, () => forward(reference.name, 'main'));
  const publish = useDo('cannot fast-forward main', () => forward('main', reference.name));
  if (reference.name === 'main') return null;
  const branch = reference.type === 'branch';
  const needs = need(onTable(table.catalog, fullName(table)), 'write');
  return (
    <span className="row" style={{ justifyContent: 'flex-end' }}>
      {branch && reference.can_forward && (
        <ActionButton size="compact-xs" variant="default" needs={needs} loading={catchUp.isPending} onClick={() => catchUp.mutate()}>
          Fast-forward to main
        </ActionButton>
      )}
      {branch && reference.ahead > 0 && (
        <ActionButton
          size="compact-xs"
          variant="default"
          needs={needs}
          loading={publish.isPending}
          disabledReason={reference.behind > 0 ? `Main has ${many(reference.behind, 'snapshot')} that ${reference.name} is not based on: it would lose them.` : null}
          onClick={() => publish.mutate()}
        >
          Fast-forward main to it
        </ActionButton>
      )}
      <ActionButton size="compact-xs" variant="default" needs={needs} onClick={() => drop(reference)}>
        Drop
      </ActionButton>
    </span>
  );
}

function NewRef({ table, at, close }: { table: Table; at: string | undefined; close: () => void }) {
  return (
    <Modal opened={at !== undefined} onClose={close} title={`New tag or branch of ${fullName(table)}`} closeButtonProps={{ 'aria-label': 'close' }}>
      {at !== undefined && <NewRefForm table={table} at={at} close={close} />}
    </Modal>
  );
}

function NewRefForm({ table, at, close }: { table: Table; at: string; close: () => void }) {
  const queries = useQueryClient();
  const branches = table.allowed_actions.includes('branch');
  const [type, setType] = useState<RefIn['type']>('tag');
  const [name, setName] = useState('');
  const [snapshot, setSnapshot] = useState(at);
  const [days, setDays] = useState<string | number>('');
  const make = useMutation({
    mutationFn: () =>
      answered(
        api.PUT('/catalogs/{catalog}/tables/{table}/refs/{name}', {
          params: { path: { catalog: table.catalog, table: fullName(table), name: name.trim() } },
          body: { type, snapshot: snapshot.trim(), replace: false, max_ref_age_ms: days === '' ? null : Math.round(Number(days) * DAY_MS) },
        }),
      ),
    onSuccess: async () => {
      await queries.invalidateQueries();
      close();
    },
  });
  const options = { catalog: table.catalog, snapshot: snapshot.trim(), retain: days === '' ? null : `${days}d` };
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        make.mutate();
      }}
    >
      <SegmentedControl
        aria-label="tag or branch"
        value={type}
        onChange={(value) => setType(value)}
        data={[
          { value: 'tag', label: 'Tag' },
          { value: 'branch', label: 'Branch', disabled: !branches },
        ]}
      />
      {!branches && <div className="dim">{table.unavailable_actions.branch}</div>}
      <TextInput label="Name" value={name} onChange={(event) => setName(event.currentTarget.value)} classNames={{ input: 'mono' }} data-autofocus />
      <TextInput
        label="At"
        description="A snapshot, or a branch or tag that points at it"
        value={snapshot}
        onChange={(event) => setSnapshot(event.currentTarget.value)}
        classNames={{ input: 'mono' }}
      />
      <NumberInput label="Kept for days" description="Empty: until dropped" min={0.01} value={days} onChange={setDays} hideControls />
      {make.error && <ProblemNote error={make.error} />}
      {name.trim() !== '' && <InTerminal command={type === 'tag' ? firn('table tag', [fullName(table), name.trim()], options) : firn('table branch', [fullName(table), name.trim()], options)} />}
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <ActionButton variant="default" onClick={close}>
          Cancel
        </ActionButton>
        <ActionButton type="submit" loading={make.isPending} disabledReason={name.trim() === '' ? 'Enter a name.' : null}>
          Make the {type}
        </ActionButton>
      </div>
    </form>
  );
}
