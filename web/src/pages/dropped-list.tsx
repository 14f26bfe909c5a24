import { Modal, Radio, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { answered, api } from '../api/client';
import { dropped } from '../api/queries';
import type { Dropped } from '../api/types';
import { ActionButton } from '../components/action-button';
import { ConfirmDialog } from '../components/confirm-dialog';
import { DataTable, type Column } from '../components/data-table';
import { useNow, When } from '../components/figures';
import { InTerminal } from '../components/in-terminal';
import { TableName } from '../components/job-parts';
import { Empty, Note, ProblemNote } from '../components/notes';
import { partsOf } from '../lib/names';
import { need, onTable, scopeOf } from '../lib/access';
import { many, moment, span } from '../lib/format';
import { paths } from '../lib/paths';
import { firn } from '../lib/terminal';

interface DroppedListProps {
  catalog: string;
  database: string | undefined;
  search: string | undefined;
}

/** What was dropped and can still be brought back, newest first. */
export function DroppedList({ catalog, database, search }: DroppedListProps) {
  const found = useInfiniteQuery(dropped(catalog));
  const [undropping, undrop] = useState<Dropped | undefined>();
  const [purging, purge] = useState<Dropped | undefined>();
  const rows = found.data?.pages
    .flatMap((page) => page.items)
    .filter((row) => database === undefined || row.name === database || row.name.startsWith(`${database}.`))
    .filter((row) => search === undefined || row.name.toLowerCase().includes(search.toLowerCase()));
  return (
    <>
      <DataTable
        name="dropped tables"
        columns={columns(catalog, undrop, purge)}
        rows={rows}
        error={found.error}
        id={(row) => row.id}
        more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
        empty={
          <Empty title="No dropped tables">
            Firn keeps dropped tables, by default for seven days. Undrop restores one as it was.
          </Empty>
        }
      />
      {undropping !== undefined && <Undrop key={undropping.id} catalog={catalog} entry={undropping} close={() => undrop(undefined)} />}
      {purging !== undefined && <Purge key={purging.id} catalog={catalog} entry={purging} close={() => purge(undefined)} />}
    </>
  );
}

type Choose = (entry: Dropped) => void;

function columns(catalog: string, undrop: Choose, purge: Choose): Column<Dropped>[] {
  return [
    { key: 'name', title: 'Dropped', cell: (row) => <TableName table={row.name} />, wide: true },
    { key: 'kind', title: 'Kind', cell: (row) => row.kind },
    { key: 'when', title: 'When', cell: (row) => <When at={row.dropped_at} />, right: true },
    { key: 'left', title: 'Time left', cell: (row) => <TimeLeft row={row} />, right: true },
    { key: 'then', title: 'Then', cell: (row) => <span className="dim">{thenText(row)}</span> },
    { key: 'files', title: 'Files', cell: (row) => <Files row={row} /> },
    { key: 'id', title: 'Id', cell: (row) => <span className="mono dim">{row.id}</span>, extra: true },
    { key: 'act', title: '', cell: (row) => <Actions catalog={catalog} row={row} undrop={undrop} purge={purge} />, right: true },
  ];
}

function thenText(row: Dropped): string {
  if (row.kind === 'namespace') return 'as set for each table';
  return row.purge ? 'files are deleted' : 'files stay';
}

function TimeLeft({ row }: { row: Dropped }) {
  const now = useNow();
  if (row.state === 'purging') return <span className="dim">none</span>;
  const seconds = Math.max(0, (Date.parse(row.keep_until) - now) / 1000);
  return <span title={`until ${moment(row.keep_until)}`}>{seconds > 0 ? span(seconds) : 'over'}</span>;
}

function Files({ row }: { row: Dropped }) {
  const at = row.purging;
  if (at !== null) {
    return (
      <span className={at.error === null ? 'accent' : 'bad'} title={at.error ?? ''}>
        {at.error ?? `${many(at.deleted_files, 'file')} deleted`}
      </span>
    );
  }
  if (row.files === 'gone') return <span className="bad">files are gone</span>;
  return <span className="dim">{row.files === 'present' ? 'present' : 'the storage does not answer'}</span>;
}

function Actions({ catalog, row, undrop, purge }: { catalog: string; row: Dropped; undrop: Choose; purge: Choose }) {
  const on = row.kind === 'namespace' ? scopeOf(catalog, partsOf(row.name)) : onTable(catalog, row.name);
  const reason = (action: string) => (row.allowed_actions.includes(action) ? null : (row.unavailable_actions[action] ?? 'Not available now.'));
  return (
    <span className="row" style={{ gap: 6, justifyContent: 'flex-end' }}>
      <ActionButton size="compact-xs" variant="default" needs={need(on, 'read', 'create')} disabledReason={reason('undrop')} onClick={() => undrop(row)}>
        Undrop
      </ActionButton>
      <ActionButton size="compact-xs" variant="default" needs={need(on, 'read', 'drop')} disabledReason={reason('purge')} onClick={() => purge(row)}>
        Purge
      </ActionButton>
    </span>
  );
}

interface DialogProps {
  catalog: string;
  entry: Dropped;
  close: () => void;
}

/** A dry run of the undrop, before the undrop itself; another name may be chosen. */
function Undrop({ catalog, entry, close }: DialogProps) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [typed, setTo] = useState(entry.name);
  const [to] = useDebouncedValue(typed, 400);
  const body = to.trim() === entry.name ? {} : { to: to.trim() };
  const post = (dry: boolean) =>
    answered(
      api.POST('/catalogs/{catalog}/dropped/{entry_id}/undrop', {
        params: { path: { catalog, entry_id: entry.id }, query: { dry_run: dry } },
        body,
      }),
    );
  const dry = useQuery({ queryKey: ['undrop', catalog, entry.id, to], queryFn: () => post(true), retry: false, staleTime: Infinity });
  const doing = useMutation({
    mutationFn: () => post(false),
    onSuccess: async (done) => {
      await queries.invalidateQueries();
      close();
      const first = done.restored[0];
      void navigate(entry.kind === 'namespace' || first === undefined ? paths.tables(catalog) : paths.table(catalog, first.name));
    },
  });
  return (
    <Modal opened onClose={close} title={`Undrop ${entry.name}`} closeButtonProps={{ 'aria-label': 'close' }}>
      <div className="stack">
        <div>Undrop restores its rows, snapshots, history and settings as they were.</div>
        {entry.kind !== 'namespace' && (
          <TextInput label="Name" description="Choose another one if the old name is taken" value={typed} onChange={(event) => setTo(event.currentTarget.value)} />
        )}
        {dry.data && <WouldComeBack done={dry.data} />}
        <InTerminal command={undropCommand(catalog, entry, to.trim())} />
        {(doing.error ?? dry.error) && <ProblemNote error={doing.error ?? dry.error} />}
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <ActionButton variant="default" onClick={close}>
            Cancel
          </ActionButton>
          <ActionButton loading={doing.isPending} disabledReason={to !== typed ? 'The server is checking the files.' : dry.isError ? 'It cannot be restored under this name.' : null} onClick={() => doing.mutate()}>
            Undrop
          </ActionButton>
        </div>
      </div>
    </Modal>
  );
}

const undropCommand = (catalog: string, entry: Dropped, to: string) =>
  entry.kind === 'namespace'
    ? firn('namespace undrop', [entry.name], { catalog })
    : firn('table undrop', [entry.name], { catalog, id: entry.id, to: to === entry.name ? null : to });

function WouldComeBack({ done }: { done: { restored: { name: string }[]; not_restored: Record<string, string>; files_checked: number; files_of: number } }) {
  return (
    <>
      <div className="dim">
        {many(done.restored.length, 'table or view', 'tables and views')} would come back. The server checked{' '}
        {done.files_checked === done.files_of ? '' : `${done.files_checked.toLocaleString('en-US')} of `}
        {many(done.files_of, 'file')} in use{Object.keys(done.not_restored).length === 0 ? ': none is missing.' : '.'}
      </div>
      {Object.entries(done.not_restored).map(([name, why]) => (
        <Note key={name} tone="warn" title={`${name} stays dropped`}>
          {why}
        </Note>
      ))}
    </>
  );
}

function Purge({ catalog, entry, close }: DialogProps) {
  const [keep, setKeep] = useState('delete');
  const keepFiles = keep === 'keep';
  return (
    <ConfirmDialog
      title={`Purge ${entry.name}`}
      opened
      close={close}
      yes={keepFiles ? 'Remove it from the list' : 'Delete its files'}
      danger
      command={firn('table purge', [entry.name], { catalog, id: entry.id, 'keep-files': keepFiles })}
      act={() =>
        answered(
          api.DELETE('/catalogs/{catalog}/dropped/{entry_id}', {
            params: { path: { catalog, entry_id: entry.id }, query: { keep_files: keepFiles } },
          }),
        )
      }
    >
      <div className="stack">
        <div>This cannot be undone.</div>
        <Radio.Group value={keep} onChange={setKeep} aria-label="its files">
          <div className="stack" style={{ gap: 8 }}>
            <Radio value="delete" label="Delete its files in the background. Files outside its own location stay." />
            <Radio value="keep" label="Only remove it from the list; its files stay." />
          </div>
        </Radio.Group>
      </div>
    </ConfirmDialog>
  );
}
