import { useState } from 'react';

import { answered, api } from '../../api/client';
import type { Stream } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { ConfirmDialog, useDo } from '../../components/confirm-dialog';
import { ResetLogDialog } from '../../components/reset-log';
import { need, onTable } from '../../lib/access';
import { firn } from '../../lib/terminal';

const WHAT = {
  pause: 'Pause',
  restart: 'Restart',
};

const SAYS = {
  pause: 'It commits nothing more until somebody resumes it. Records wait in the topic: they are lost if the topic drops them before that.',
  restart: 'A new attempt begins at once, from the position of the table: no record is lost, and none comes twice. An attempt that runs now ends.',
};

/** Pause, restart and reset are asked once; resume is not. Only a stream that has stopped offers a reset. */
export function StreamActions({ stream }: { stream: Stream }) {
  const [asking, ask] = useState<keyof typeof WHAT | undefined>();
  const [resetting, reset] = useState(false);
  const table = onTable(stream.catalog, stream.table);
  const needs = need(table, 'maintain');
  const at = { params: { path: { stream_id: stream.id } } };
  const resume = useDo(`cannot resume the stream of ${stream.table}`, () => answered(api.POST('/streams/{stream_id}/resume', at)));
  const isPaused = stream.status === 'paused';
  const act = {
    pause: () => answered(api.POST('/streams/{stream_id}/pause', at)),
    restart: () => answered(api.POST('/streams/{stream_id}/restart', at)),
  };
  const commands = {
    pause: firn('stream pause', [stream.table], { catalog: stream.catalog }),
    restart: firn('stream restart', [stream.table], { catalog: stream.catalog }),
  };
  return (
    <span className="row" style={{ gap: 4, justifyContent: 'flex-end' }}>
      {isPaused ? (
        <ActionButton size="compact-xs" variant="default" needs={needs} loading={resume.isPending} onClick={() => resume.mutate()} aria-label={`resume ${stream.table}`}>
          Resume
        </ActionButton>
      ) : (
        <ActionButton size="compact-xs" variant="default" needs={needs} onClick={() => ask('pause')} aria-label={`pause ${stream.table}`}>
          Pause…
        </ActionButton>
      )}
      <ActionButton
        size="compact-xs"
        variant="default"
        needs={needs}
        disabledReason={isPaused ? 'It is paused: resume it instead.' : null}
        onClick={() => ask('restart')}
        aria-label={`restart ${stream.table}`}
      >
        Restart…
      </ActionButton>
      {stream.status === 'stopped' && (
        <ActionButton size="compact-xs" variant="default" needs={need(table, 'write')} onClick={() => reset(true)} aria-label={`reset ${stream.table}`}>
          Reset…
        </ActionButton>
      )}
      {resetting && <ResetLogDialog catalog={stream.catalog} table={stream.table} close={() => reset(false)} />}
      {asking !== undefined && (
        <ConfirmDialog title={`${WHAT[asking]} the stream of ${stream.table}`} opened close={() => ask(undefined)} yes={`${WHAT[asking]} it`} command={commands[asking]} act={act[asking]}>
          {SAYS[asking]}
        </ConfirmDialog>
      )}
    </span>
  );
}
