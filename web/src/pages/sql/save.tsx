import { Button, Modal, Switch, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type SubmitEvent } from 'react';

import { answered, api } from '../../api/client';
import type { Engine } from '../../api/sql-queries';
import type { SavedQuery } from '../../api/types';
import { ProblemNote } from '../../components/notes';

interface SaveProps {
  statement: string;
  engine: Engine;
  catalog: string;
  namespace: string;
  /** The caller's own saved query that the statement comes from. */
  from: SavedQuery | undefined;
  close: () => void;
  done: (saved: SavedQuery) => void;
}

/** Keeps a statement under a name, and shows it to others if it is shared. */
export function Save({ statement, engine, catalog, namespace, from, close, done }: SaveProps) {
  const queries = useQueryClient();
  const [name, setName] = useState(from?.name ?? '');
  const [shared, setShared] = useState(from?.shared ?? false);
  const save = useMutation({
    mutationFn: (anew: boolean) => {
      const body = { name: name.trim(), statement, engine, catalog, namespace, shared };
      return from === undefined || anew
        ? answered(api.POST('/saved-queries', { body }))
        : answered(api.PUT('/saved-queries/{saved_id}', { params: { path: { saved_id: from.id } }, body }));
    },
    onSuccess: async (saved) => {
      await queries.invalidateQueries({ queryKey: ['sql', 'saved'] });
      done(saved);
    },
  });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    save.mutate(false);
  };
  return (
    <Modal opened onClose={close} title="Save the statement" closeButtonProps={{ 'aria-label': 'close' }}>
      <form onSubmit={submit} className="stack">
        <TextInput label="Name" value={name} onChange={(event) => setName(event.currentTarget.value)} required maxLength={200} data-autofocus />
        <Switch
          label="Shared"
          description="Everybody who can sign in sees the statement. Their own rights decide which rows they read."
          checked={shared}
          onChange={(event) => setShared(event.currentTarget.checked)}
        />
        {save.error && <ProblemNote error={save.error} what="cannot save" />}
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          {from !== undefined && (
            <Button variant="default" onClick={() => save.mutate(true)} disabled={name.trim() === ''}>
              Save as new
            </Button>
          )}
          <Button type="submit" loading={save.isPending} disabled={name.trim() === ''}>
            {from === undefined ? 'Save' : `Replace ${from.name}`}
          </Button>
        </div>
      </form>
    </Modal>
  );
}
