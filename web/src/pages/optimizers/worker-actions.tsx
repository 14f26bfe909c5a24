import { Modal, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answered, api } from '../../api/client';
import type { Optimizer } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { useDo } from '../../components/confirm-dialog';
import { InTerminal } from '../../components/in-terminal';
import { ProblemNote } from '../../components/notes';
import { many } from '../../lib/format';
import { firn } from '../../lib/terminal';
import { MAINTAIN } from './groups';

type Wish = 'drain' | 'stop';

const SAYS: Record<Wish, string> = {
  drain: 'It finishes its jobs and takes no new ones. It keeps running, and can be resumed.',
  stop: 'It finishes its jobs, takes no new ones, and exits. The server may replace one that it started.',
};

/** Drain, stop, and back; each asked once. */
export function WorkerActions({ optimizer }: { optimizer: Optimizer }) {
  const [wish, want] = useState<Wish | undefined>();
  const at = { params: { path: { optimizer_id: optimizer.id } } };
  const undrain = useDo('cannot resume it', () => answered(api.POST('/optimizers/{optimizer_id}/undrain', at)));
  const gone = optimizer.silent ? 'It is silent: the server cannot reach it.' : null;
  const name = `${optimizer.host}:${optimizer.pid}`;
  return (
    <span className="row" style={{ gap: 4, justifyContent: 'flex-end' }}>
      {optimizer.draining ? (
        <ActionButton variant="default" size="compact-xs" needs={MAINTAIN} disabledReason={gone} loading={undrain.isPending} onClick={() => undrain.mutate()} aria-label={`resume ${name}`}>
          Resume
        </ActionButton>
      ) : (
        <ActionButton variant="default" size="compact-xs" needs={MAINTAIN} disabledReason={gone} onClick={() => want('drain')} aria-label={`drain ${name}`}>
          Drain
        </ActionButton>
      )}
      <ActionButton
        variant="default"
        size="compact-xs"
        needs={MAINTAIN}
        disabledReason={gone ?? (optimizer.stopping ? 'It is stopping already.' : null)}
        onClick={() => want('stop')}
        aria-label={`stop ${name}`}
      >
        Stop
      </ActionButton>
      <Modal opened={wish !== undefined} onClose={() => want(undefined)} title={`${wish === 'stop' ? 'Stop' : 'Drain'} ${name}`} closeButtonProps={{ 'aria-label': 'close' }}>
        {wish !== undefined && <Wished optimizer={optimizer} wish={wish} close={() => want(undefined)} />}
      </Modal>
    </span>
  );
}

function Wished({ optimizer, wish, close }: { optimizer: Optimizer; wish: Wish; close: () => void }) {
  const queries = useQueryClient();
  const [why, setWhy] = useState('');
  const doing = useMutation({
    mutationFn: () =>
      answered(
        api.POST('/optimizers/{optimizer_id}/drain', {
          params: { path: { optimizer_id: optimizer.id } },
          body: { stop: wish === 'stop', reason: why.trim() === '' ? null : why.trim() },
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
        doing.mutate();
      }}
    >
      <div>
        {SAYS[wish]} It holds {optimizer.jobs.length === 0 ? 'no job now' : many(optimizer.jobs.length, 'job')}.
      </div>
      <TextInput label="Why" placeholder="shown to others" value={why} onChange={(event) => setWhy(event.currentTarget.value)} data-autofocus />
      {doing.error && <ProblemNote error={doing.error} />}
      <InTerminal command={wish === 'stop' ? firn('optimizer stop', [optimizer.id], { reason: why.trim() }) : firn('optimizer drain', [optimizer.id], { reason: why.trim() })} />
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <ActionButton variant="default" onClick={close}>
          Cancel
        </ActionButton>
        <ActionButton type="submit" loading={doing.isPending}>
          {wish === 'stop' ? 'Stop' : 'Drain'}
        </ActionButton>
      </div>
    </form>
  );
}
