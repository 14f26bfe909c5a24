import { Select } from '@mantine/core';
import { useState } from 'react';

import { answered, api } from '../../api/client';
import type { Table } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { ConfirmDialog, useDo } from '../../components/confirm-dialog';
import { DataTable, type Column } from '../../components/data-table';
import { Count, When } from '../../components/figures';
import { Panel } from '../../components/panel';
import { need, onTable } from '../../lib/access';
import { many } from '../../lib/format';
import { fullName } from '../../lib/paths';
import { firn } from '../../lib/terminal';
import { describeKeys, keyText } from '../../lib/uniqueness';

type Found = NonNullable<Table['keys']>;
type Repeated = Found['sample'][number];

const COLUMNS: Column<Repeated>[] = [
  { key: 'key', title: 'Key', cell: (row) => <span className="mono">{keyText(row.key)}</span> },
  { key: 'rows', title: 'Rows', cell: (row) => <Count value={row.rows} />, right: true },
  { key: 'files', title: 'In files', cell: (row) => <Files duplicate={row} />, wide: true },
];

/** What the last count has found, as a fact among others. */
export function keysFact({ keys }: Table) {
  const { says, note, warns } = describeKeys(keys);
  return {
    name: 'keys',
    value: <span className={keys === null ? 'dim' : warns ? 'warn' : ''}>{says}</span>,
    ...(keys === null
      ? { note: '“Check keys” reads all rows' }
      : {
          note: (
            <>
              {note !== undefined && `${note}; `}counted <When at={keys.checked_at} />
              {keys.snapshot_id !== null && (
                <>
                  , snapshot <span className="mono">{keys.snapshot_id}</span>
                </>
              )}
            </>
          ),
        }),
  };
}

/** Starts a count; what it finds is a fact of the table. */
export function CheckKeys({ table }: { table: Table }) {
  const check = useDo('cannot check keys', () =>
    answered(
      api.POST('/catalogs/{catalog}/tables/{table}/jobs', {
        params: { path: { catalog: table.catalog, table: fullName(table) } },
        body: { kind: 'keys' },
      }),
    ),
  );
  return (
    <ActionButton
      variant="default"
      loading={check.isPending || table.active_job?.kind === 'keys'}
      needs={need(onTable(table.catalog, fullName(table)), 'maintain')}
      disabledReason={table.allowed_actions.includes('keys') ? null : table.unavailable_actions.keys}
      onClick={() => check.mutate()}
    >
      Check keys
    </ActionButton>
  );
}

/** Keys that occur more than once, and what can be done about them; nothing where there are none. */
export function DuplicateKeys({ table }: { table: Table }) {
  const [asking, ask] = useState(false);
  const { keys } = table;
  if (keys === null || keys.keys === 0) return null;
  return (
    <Panel
      flush
      title={describeKeys(keys).says}
      aside={
        <ActionButton
          variant="default"
          needs={need(onTable(table.catalog, fullName(table)), 'write')}
          disabledReason={table.allowed_actions.includes('keys') ? null : table.unavailable_actions.keys}
          onClick={() => ask(true)}
        >
          Remove duplicates…
        </ActionButton>
      }
    >
      <DataTable
        plain
        name="keys that occur more than once"
        columns={COLUMNS}
        rows={keys.sample}
        id={(row) => keyText(row.key)}
        empty={<div className="dim">The duplicate keys are not listed.</div>}
      />
      <RemoveDuplicates table={table} found={keys} opened={asking} close={() => ask(false)} />
    </Panel>
  );
}

function RemoveDuplicates({ table, found, opened, close }: { table: Table; found: Found; opened: boolean; close: () => void }) {
  const [highest, choose] = useState('');
  const isDecided = table.sequence_field !== null;
  const others = table.columns.filter((column) => !column.is_key).map((column) => ({ value: column.name, label: `the highest ${column.name}` }));
  return (
    <ConfirmDialog
      title={`Remove duplicates: ${fullName(table)}`}
      opened={opened}
      close={close}
      yes="Remove duplicates"
      danger
      command={firn('table resolve-keys', [fullName(table)], { catalog: table.catalog, 'keep-highest': highest, 'keep-last': highest === '' })}
      act={() =>
        answered(
          api.POST('/catalogs/{catalog}/tables/{table}/jobs', {
            params: { path: { catalog: table.catalog, table: fullName(table) } },
            body: { kind: 'keys', options: { resolve: true, keep_highest: highest === '' ? null : highest } },
          }),
        )
      }
    >
      <div className="stack">
        <div>
          An optimizer checks again and deletes the duplicate rows from base in one commit: {many(found.surplus_rows, 'row')} at the last check. Time
          travel reaches them until their snapshots expire.
          {table.hive_name !== null && ' Hive goes on reading them until the next publish.'}
        </div>
        {isDecided ? (
          <div>
            Of each key the row with the highest <span className="mono">{table.sequence_field}</span> stays, and of equal ones the row written last.
          </div>
        ) : (
          <Select
            label="Row to keep for each key"
            value={highest}
            onChange={(value) => choose(value ?? '')}
            data={[{ value: '', label: 'the row written last' }, ...others]}
          />
        )}
      </div>
    </ConfirmDialog>
  );
}

function Files({ duplicate }: { duplicate: Repeated }) {
  return (
    <>
      {duplicate.files.map((file) => (
        <div key={file} className="mono wrap-anywhere" title={file}>
          {file.split('/').slice(-2).join('/')}
        </div>
      ))}
      {duplicate.more_files > 0 && <span className="dim">and {many(duplicate.more_files, 'more file')}</span>}
    </>
  );
}
