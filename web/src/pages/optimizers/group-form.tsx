import { Button, Modal, NumberInput, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { answered, api } from '../../api/client';
import type { Group } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { InTerminal } from '../../components/in-terminal';
import { ProblemNote } from '../../components/notes';
import { firn } from '../../lib/terminal';

interface GroupFormProps {
  /** The group whose settings are changed; without one a new one is made. */
  group?: Group;
  opened: boolean;
  close: () => void;
}

export function GroupForm({ group, opened, close }: GroupFormProps) {
  return (
    <Modal opened={opened} onClose={close} title={group === undefined ? 'Create group' : `Group ${group.name}`} closeButtonProps={{ 'aria-label': 'close' }}>
      <Fields group={group} close={close} />
    </Modal>
  );
}

function Fields({ group, close }: { group: Group | undefined; close: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState(group?.name ?? '');
  const [description, setDescription] = useState(group?.description ?? '');
  const [reserved, setReserved] = useState(group?.reserved_slots ?? 1);
  const [quota, setQuota] = useState(Math.round((group?.catalog_quota ?? 1) * 100));
  const save = useMutation({
    mutationFn: () => {
      const settings = { description, reserved_slots: reserved, catalog_quota: quota / 100 };
      return group === undefined
        ? answered(api.POST('/groups', { body: { name, ...settings } }))
        : answered(api.PUT('/groups/{group}', { params: { path: { group: group.name } }, body: settings }));
    },
    onSuccess: async () => {
      await queries.invalidateQueries();
      close();
    },
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const options = { description: description.trim(), 'reserved-slots': reserved, 'catalog-quota': quota / 100 };
  const command = group === undefined ? firn('group create', [name.trim()], options) : firn('group set', [group.name], options);
  return (
    <form onSubmit={submit} className="stack">
      {group === undefined && (
        <TextInput
          label="Name"
          description="The policy firn.optimize.group assigns tables to the group, --group assigns optimizers"
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          data-autofocus
        />
      )}
      <TextInput label="For" placeholder="what the group is for" value={description} onChange={(event) => setDescription(event.currentTarget.value)} />
      <NumberInput
        size="xs"
        label="Slots kept for short jobs"
        description="Long jobs leave these slots free, so that small merges do not wait for big rewrites"
        min={0}
        allowDecimal={false}
        value={reserved}
        onChange={(value) => setReserved(Number(value))}
      />
      <NumberInput
        size="xs"
        label="Quota of a catalog"
        description="Above this share of the group’s time per hour, other catalogs’ jobs go first; 100 % means no limit"
        min={1}
        max={100}
        suffix=" %"
        value={quota}
        onChange={(value) => setQuota(Number(value))}
      />
      {name.trim() !== '' && <InTerminal command={command} />}
      {save.error && <ProblemNote error={save.error} />}
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <Button variant="default" onClick={close}>
          Cancel
        </Button>
        <ActionButton type="submit" loading={save.isPending} disabledReason={name.trim() === '' ? 'Enter a name.' : null}>
          {group === undefined ? 'Create' : 'Save'}
        </ActionButton>
      </div>
    </form>
  );
}
