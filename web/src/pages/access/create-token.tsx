import { Modal, MultiSelect, Select, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { answered, api } from '../../api/client';
import { roles } from '../../api/access';
import { catalogs } from '../../api/queries';
import { ActionButton } from '../../components/action-button';
import { useMe } from '../../components/current-user';
import { InTerminal } from '../../components/in-terminal';
import { ProblemNote } from '../../components/notes';
import { firn } from '../../lib/terminal';
import type { Shown } from './secret';

const DAY = 86_400;
const LASTS = [
  { value: '', label: 'server default' },
  { value: String(DAY), label: '1 day' },
  { value: String(7 * DAY), label: '7 days' },
  { value: String(30 * DAY), label: '30 days' },
  { value: String(90 * DAY), label: '90 days' },
  { value: String(365 * DAY), label: '1 year' },
];

/** A token that can do what its owner can, or less. */
export function CreateToken({ close, made }: { close: () => void; made: (shown: Shown) => void }) {
  const me = useMe();
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [owner, setOwner] = useState('');
  const [lasts, setLasts] = useState('');
  const [onlyRoles, setRoles] = useState<string[]>([]);
  const [onlyCatalogs, setCatalogs] = useState<string[]>([]);
  const known = useQuery(catalogs());
  const all = useQuery({ ...roles(), enabled: me.admin });
  const create = useMutation({
    mutationFn: () =>
      answered(
        api.POST('/tokens', {
          body: {
            name: name.trim(),
            owner: owner.trim() === '' ? null : owner.trim(),
            roles: onlyRoles.length === 0 ? null : onlyRoles,
            catalogs: onlyCatalogs.length === 0 ? null : onlyCatalogs,
            expires_in_seconds: lasts === '' ? null : Number(lasts),
          },
        }),
      ),
    onSuccess: async (token) => {
      close();
      made({ title: `The token ${token.name}`, secret: token.token, says: 'Firn keeps only its hash. Copy it now; if you lose it, create another one.' });
      await queries.invalidateQueries({ queryKey: ['tokens'] });
    },
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    create.mutate();
  };
  const ownRoles = owner.trim() === '' ? me.roles : (all.data ?? []).map((item) => item.name);
  return (
    <Modal opened onClose={close} title="Create a token" closeButtonProps={{ 'aria-label': 'close' }}>
      <form onSubmit={submit} className="stack">
        <TextInput label="Name" description="What it is for" placeholder="nightly load" value={name} onChange={(event) => setName(event.currentTarget.value)} data-autofocus />
        {me.admin && (
          <TextInput label="For" description="Another user or a service; empty means you" value={owner} onChange={(event) => setOwner(event.currentTarget.value)} classNames={{ input: 'mono' }} />
        )}
        <Select label="Expires in" value={lasts} onChange={(value) => setLasts(value ?? '')} data={LASTS} />
        <MultiSelect label="Only these roles" placeholder={onlyRoles.length === 0 ? 'all of the owner' : ''} data={ownRoles} value={onlyRoles} onChange={setRoles} />
        <MultiSelect
          label="Only in these catalogs"
          placeholder={onlyCatalogs.length === 0 ? 'all' : ''}
          data={(known.data ?? []).map((item) => item.name)}
          value={onlyCatalogs}
          onChange={setCatalogs}
        />
        {name.trim() !== '' && (
          <InTerminal
            command={firn('token create', [name.trim()], {
              owner: owner.trim(),
              role: onlyRoles,
              'in-catalog': onlyCatalogs,
              'expires-in': lasts === '' ? null : `${Number(lasts) / DAY}d`,
            })}
          />
        )}
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
