import { Modal, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';
import { useNavigate } from 'react-router';

import { answered, api } from '../../api/client';
import { roles } from '../../api/access';
import type { Role } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { DataTable, type Column } from '../../components/data-table';
import { InTerminal } from '../../components/in-terminal';
import { When } from '../../components/figures';
import { useMe } from '../../components/current-user';
import { Empty, ProblemNote } from '../../components/notes';
import { grantText } from '../../lib/access';
import { paths } from '../../lib/paths';
import { firn } from '../../lib/terminal';
import { AccessFrame } from './frame';

const COLUMNS: Column<Role>[] = [
  { key: 'name', title: 'Role', cell: (row) => <span className="mono">{row.name}</span> },
  { key: 'description', title: 'For', cell: (row) => <span className="dim">{row.builtin ? `${row.description} (built in)` : row.description}</span> },
  { key: 'grants', title: 'Grants', cell: (row) => <Grants role={row} />, wide: true, help: 'only grants whose scope you may see' },
  { key: 'created', title: 'Created', cell: (row) => <When at={row.created_at} />, right: true },
];

function Grants({ role }: { role: Role }) {
  if (role.grants.length === 0) return <span className="dim">nothing yet</span>;
  const more = role.grants.length - 3;
  return (
    <div className="wrap-anywhere" style={{ minWidth: 220 }}>
      {role.grants.slice(0, 3).map(grantText).join('; ')}
      {more > 0 && <span className="dim"> and {more} more</span>}
    </div>
  );
}

/** Names for grants; people and services have roles. */
export function RolesPage() {
  const { admin, grants } = useMe();
  const mayGrant = admin || grants.some((item) => item.privileges.includes('grant'));
  const { data, error } = useQuery(roles());
  const [creating, { open, close }] = useDisclosure(false);
  return (
    <AccessFrame
      actions={
        <ActionButton leftSection={<IconPlus size={14} />} disabledReason={admin ? null : 'Only administrators create roles.'} onClick={open}>
          Create role
        </ActionButton>
      }
    >
      {!mayGrant && <span className="dim">These are your own roles. Users who may grant privileges see all roles.</span>}
      <DataTable
        name="roles"
        columns={COLUMNS}
        rows={data}
        error={error}
        id={(row) => row.name}
        link={(row) => paths.role(row.name)}
        empty={<Empty title="No visible roles">Roles decide what you can do; ask an administrator for one.</Empty>}
      />
      {creating && <CreateRole close={close} />}
    </AccessFrame>
  );
}

function CreateRole({ close }: { close: () => void }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const create = useMutation({
    mutationFn: () => answered(api.POST('/roles', { body: { name: name.trim(), description: description.trim() } })),
    onSuccess: async (role) => {
      await queries.invalidateQueries({ queryKey: ['roles'] });
      void navigate(paths.role(role.name));
    },
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    create.mutate();
  };
  return (
    <Modal opened onClose={close} title="Create a role" closeButtonProps={{ 'aria-label': 'close' }}>
      <form onSubmit={submit} className="stack">
        <TextInput label="Name" placeholder="analysts" value={name} onChange={(event) => setName(event.currentTarget.value)} classNames={{ input: 'mono' }} data-autofocus />
        <TextInput label="For" description="Optional: what the role is for" value={description} onChange={(event) => setDescription(event.currentTarget.value)} />
        {name.trim() !== '' && <InTerminal command={firn('role create', [name.trim()], { description: description.trim() })} />}
        {create.error && <ProblemNote error={create.error} />}
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <ActionButton type="submit" loading={create.isPending} disabledReason={name.trim() === '' ? 'Enter a name.' : null}>
            Create
          </ActionButton>
        </div>
      </form>
    </Modal>
  );
}
