import { Button, Modal, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { answered, api } from '../api/client';
import type { Catalog } from '../api/types';
import { ActionButton } from '../components/action-button';
import { InTerminal } from '../components/in-terminal';
import { ProblemNote } from '../components/notes';
import { need, scopeOf } from '../lib/access';
import { firn } from '../lib/terminal';

const PROPERTY = 'firn.drop.retention';
/** See catalog/removal/drop.py. */
const DEFAULT = '7 d';

/** How long a catalog keeps what is dropped from it, and a way to change that. */
export function Retention({ catalog }: { catalog: Catalog }) {
  const [opened, { open, close }] = useDisclosure(false);
  const kept = catalog.properties[PROPERTY] ?? DEFAULT;
  const shown = kept === '0' ? 'not at all' : kept;
  return (
    <>
      <ActionButton
        variant="subtle"
        size="compact-xs"
        needs={need(scopeOf(catalog.name), 'maintain', 'write')}
        aria-label={`${shown}: change how long ${catalog.name} keeps dropped tables`}
        onClick={open}
      >
        {shown}
      </ActionButton>
      <Modal opened={opened} onClose={close} title={`Dropped tables of ${catalog.name}`} closeButtonProps={{ 'aria-label': 'close' }}>
        <Form catalog={catalog.name} kept={kept} close={close} />
      </Modal>
    </>
  );
}

function Form({ catalog, kept, close }: { catalog: string; kept: string; close: () => void }) {
  const queries = useQueryClient();
  const [wanted, setWanted] = useState(kept);
  const change = useMutation({
    mutationFn: () =>
      answered(
        api.PATCH('/catalogs/{catalog}/properties', {
          params: { path: { catalog } },
          body: { set: { [PROPERTY]: wanted.trim() }, remove: [] },
        }),
      ),
    onSuccess: async () => {
      await queries.invalidateQueries();
      close();
    },
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    change.mutate();
  };
  return (
    <form onSubmit={submit} className="stack">
      <TextInput
        label="Keep them for"
        description="Such as 30 d or 12 h; with 0 a drop is final"
        value={wanted}
        onChange={(event) => setWanted(event.currentTarget.value)}
        data-autofocus
      />
      <div className="dim">Applies to tables dropped from now on.</div>
      {change.error && <ProblemNote error={change.error} />}
      <InTerminal command={firn('catalog set', [catalog, `${PROPERTY}=${wanted.trim()}`])} />
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <Button variant="default" onClick={close}>
          Cancel
        </Button>
        <ActionButton type="submit" loading={change.isPending} disabledReason={wanted.trim() === '' ? 'Enter a time.' : null}>
          Save
        </ActionButton>
      </div>
    </form>
  );
}
