import { ActionIcon, Menu } from '@mantine/core';
import { IconDots, IconPlus } from '@tabler/icons-react';
import { useState } from 'react';

import { answered, api } from '../../api/client';
import { ActionButton, ActionMenuItem } from '../../components/action-button';
import { ConfirmDialog } from '../../components/confirm-dialog';
import { Load } from '../../components/bar';
import { DataTable, type Column } from '../../components/data-table';
import { Count } from '../../components/figures';
import { useWhyNot } from '../../components/current-user';
import { SERVER, type Need } from '../../lib/access';
import { whyNotDropped, type GroupLoad } from '../../lib/fleet';
import { firn } from '../../lib/terminal';
import { GroupForm } from './group-form';
import { LaunchForm } from './launch-form';

/** A launch runs commands on the server's machine. */
const GRANT: Need[] = [{ privilege: 'grant', on: SERVER }];
export const MAINTAIN: Need[] = [{ privilege: 'maintain', on: SERVER }];

const COLUMNS: Column<GroupLoad>[] = [
  { key: 'name', title: 'Group', cell: ({ group }) => <span className="mono">{group.name}</span> },
  {
    key: 'description',
    title: 'Description',
    cell: ({ group }) => <span className="wrap-anywhere">{group.description === '' ? <span className="dim">–</span> : group.description}</span>,
    wide: true,
  },
  { key: 'load', title: 'Slots in use', cell: (row) => <Load used={row.busy} of={row.slots} label={`slots of group ${row.group.name}`} /> },
  { key: 'optimizers', title: 'Optimizers', cell: (row) => <Count value={row.optimizers} />, right: true },
  {
    key: 'wanted',
    title: 'Desired',
    cell: ({ group }) => (group.wanted === null ? <span className="dim">–</span> : <Count value={group.wanted} />),
    right: true,
    help: 'optimizers that the server keeps running; – if people start them',
  },
  {
    key: 'reserved',
    title: 'Kept for short jobs',
    cell: ({ group }) => <Count value={group.reserved_slots} />,
    right: true,
    help: 'slots that long jobs leave free',
  },
  {
    key: 'quota',
    title: 'Quota of a catalog',
    cell: ({ group }) => (group.catalog_quota >= 1 ? <span className="dim">none</span> : `${Math.round(group.catalog_quota * 100)} %`),
    right: true,
    help: "share of the group’s time per hour above which other catalogs’ jobs go first",
  },
  { key: 'act', title: '', cell: (row) => <GroupActions load={row} />, right: true },
];

/** Whose slots a table's jobs may use. */
export function Groups({ loads, error }: { loads: GroupLoad[] | undefined; error: unknown }) {
  const [creating, create] = useState(false);
  return (
    <>
      <DataTable
        name="groups"
        title="Groups"
        aside={
          <ActionButton variant="subtle" size="compact-xs" leftSection={<IconPlus size={13} />} needs={MAINTAIN} onClick={() => create(true)}>
            Create group
          </ActionButton>
        }
        columns={COLUMNS}
        rows={loads}
        error={error}
        id={(row) => row.group.name}
        empty={null}
      />
      <GroupForm opened={creating} close={() => create(false)} />
    </>
  );
}

function GroupActions({ load }: { load: GroupLoad }) {
  const { group } = load;
  const [doing, set] = useState<'settings' | 'launch' | 'drop' | undefined>();
  const whyNot = useWhyNot();
  const lacks = whyNot(...MAINTAIN);
  const lacksGrant = whyNot(...GRANT);
  const stays = lacks ?? whyNotDropped(load);
  const close = () => set(undefined);
  return (
    <>
      <Menu position="bottom-end" width={260}>
        <Menu.Target>
          <ActionIcon size="sm" aria-label={`actions on group ${group.name}`}>
            <IconDots size={15} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <ActionMenuItem disabledReason={lacks} onClick={() => set('settings')}>
            Settings…
          </ActionMenuItem>
          <ActionMenuItem disabledReason={lacksGrant} onClick={() => set('launch')}>
            Launch…
          </ActionMenuItem>
          <ActionMenuItem disabledReason={stays} onClick={() => set('drop')}>
            Drop…
          </ActionMenuItem>
        </Menu.Dropdown>
      </Menu>
      {doing === 'settings' && <GroupForm group={group} opened close={close} />}
      {doing === 'launch' && <LaunchForm group={group.name} close={close} />}
      <ConfirmDialog
        title={`Drop group ${group.name}`}
        opened={doing === 'drop'}
        close={close}
        yes="Drop"
        danger
        command={firn('group drop', [group.name])}
        act={() => answered(api.DELETE('/groups/{group}', { params: { path: { group: group.name } } }))}
      >
        Firn deletes its settings. Jobs of tables whose policy names the group wait for an optimizer of that group.
      </ConfirmDialog>
    </>
  );
}
