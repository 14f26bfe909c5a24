import { Modal, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { answered, api } from '../../api/client';
import { login } from '../../api/queries';
import { ActionButton } from '../../components/action-button';
import { InTerminal } from '../../components/in-terminal';
import { ProblemNote } from '../../components/notes';
import { firn } from '../../lib/terminal';
import type { Shown } from './secret';

interface CreatePrincipalProps {
  kind: 'users' | 'services';
  close: () => void;
  made: (shown: Shown) => void;
}

export function CreatePrincipal({ kind, close, made }: CreatePrincipalProps) {
  const queries = useQueryClient();
  const { data } = useQuery(login());
  const [name, setName] = useState('');
  const [subject, setSubject] = useState('');
  const create = useMutation({
    mutationFn: async () => {
      if (kind === 'users') {
        await answered(api.POST('/users', { body: { name: name.trim(), subject: subject.trim() === '' ? null : subject.trim() } }));
        return undefined;
      }
      return answered(api.POST('/services', { body: { name: name.trim() } }));
    },
    onSuccess: async (service) => {
      close();
      if (service !== undefined) {
        made({
          title: `The service ${service.name}`,
          secret: `${service.client_id}:${service.client_secret}`,
          says: 'Engines take it as their credential. Give the service a role: without one it has no privileges.',
        });
      }
      await queries.invalidateQueries();
    },
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    create.mutate();
  };
  const isUser = kind === 'users';
  return (
    <Modal opened onClose={close} title={isUser ? 'Create a user' : 'Create a service'} closeButtonProps={{ 'aria-label': 'close' }}>
      <form onSubmit={submit} className="stack">
        <TextInput
          label="Name"
          description={isUser ? 'Letters, digits, and any of . _ - @ +' : 'It is also the client id'}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          classNames={{ input: 'mono' }}
          data-autofocus
        />
        {isUser && data?.oidc && (
          <TextInput
            label="Subject"
            description={`Optional: the user’s id at ${new URL(data.oidc.issuer).host}. Users who sign in there are created automatically.`}
            value={subject}
            onChange={(event) => setSubject(event.currentTarget.value)}
            classNames={{ input: 'mono' }}
          />
        )}
        {isUser && <div className="dim">A new user has no privileges without a role. Create a token for the user to sign in with.</div>}
        {name.trim() !== '' && (
          <InTerminal command={isUser ? firn('user create', [name.trim()], { subject: subject.trim() }) : firn('service create', [name.trim()])} />
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
