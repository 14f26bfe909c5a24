import { Modal, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answered, api } from '../../api/client';
import { tablePolicy } from '../../api/queries';
import type { Setting, Table } from '../../api/types';
import { Act } from '../../components/act';
import { DataTable, type Column } from '../../components/data-table';
import { ProblemNote } from '../../components/notes';
import { need, onTable, type Need } from '../../lib/access';
import { fullName } from '../../lib/paths';

const COLUMNS = (needs: Need[], change: (setting: Setting) => void): Column<Setting>[] => [
  { key: 'key', title: 'Setting', cell: (one) => <span className="mono">{one.key}</span> },
  { key: 'value', title: 'Value', cell: (one) => <span className="mono">{one.value}</span>, right: true },
  {
    key: 'source',
    title: 'From',
    cell: (one) => <span className={one.source === 'default' ? 'dim' : 'accent'}>{one.source}</span>,
  },
  { key: 'does', title: 'What it decides', cell: (one) => <span className="dim">{one.does}</span>, wide: true },
  {
    key: 'act',
    title: '',
    cell: (one) => (
      <Act size="compact-xs" variant="default" needs={needs} onClick={() => change(one)} aria-label={`change ${one.key}`}>
        Change
      </Act>
    ),
    right: true,
  },
];

/** Each value with where it comes from; changing one sets it on this table. */
export function PolicyTab({ table }: { table: Table }) {
  const { data, error } = useQuery(tablePolicy(table.catalog, fullName(table)));
  const [changing, change] = useState<Setting | undefined>();
  return (
    <>
      <DataTable plain name="policy" columns={COLUMNS(need(onTable(table.catalog, fullName(table)), 'write'), change)} rows={data} error={error} id={(one) => one.key} empty={null} />
      <Modal
        opened={changing !== undefined}
        onClose={() => change(undefined)}
        title={<span className="mono">{changing?.key}</span>}
        closeButtonProps={{ 'aria-label': 'close' }}
      >
        {changing && <Change table={table} setting={changing} close={() => change(undefined)} />}
      </Modal>
    </>
  );
}

function Change({ table, setting, close }: { table: Table; setting: Setting; close: () => void }) {
  const queries = useQueryClient();
  const [value, setValue] = useState(setting.value);
  const save = useMutation({
    mutationFn: (text: string | null) =>
      answered(
        api.PATCH('/catalogs/{catalog}/tables/{table}/properties', {
          params: { path: { catalog: table.catalog, table: fullName(table) } },
          body: text === null ? { remove: [setting.key] } : { set: { [setting.key]: text } },
        }),
      ),
    onSuccess: async () => {
      await queries.invalidateQueries();
      close();
    },
  });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate(value.trim());
      }}
    >
      <TextInput
        label={setting.does}
        description={`Default ${setting.default}; now from ${setting.source}`}
        value={value}
        onChange={(event) => setValue(event.currentTarget.value)}
        classNames={{ input: 'mono' }}
        data-autofocus
      />
      {save.error && <ProblemNote error={save.error} />}
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <Act
          variant="default"
          disabledReason={setting.source === 'table' ? null : 'Nothing is set on this table: the value is inherited already.'}
          onClick={() => save.mutate(null)}
        >
          Inherit
        </Act>
        <Act type="submit" loading={save.isPending} disabledReason={value.trim() === '' ? 'Give it a value.' : null}>
          Set on this table
        </Act>
      </div>
    </form>
  );
}
