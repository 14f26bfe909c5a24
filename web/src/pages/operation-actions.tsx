import { answered, api } from '../api/client';
import type { Batch, Operation } from '../api/types';
import { ActionButton } from '../components/action-button';
import { useDo } from '../components/confirm-dialog';
import { need, onTable, scopeOf, type Need } from '../lib/access';

type Verb = 'pause' | 'resume' | 'cancel';

interface OperationActionProps {
  verb: Verb;
  what: string;
  needs: Need[];
  can: readonly string[];
  act: () => Promise<unknown>;
}

const LABELS: Record<Verb, string> = { pause: 'Pause', resume: 'Resume', cancel: 'Cancel' };

function OperationAction({ verb, what, needs, can, act }: OperationActionProps) {
  const turn = useDo(`cannot ${verb}`, act);
  return (
    <ActionButton
      variant="default"
      size="compact-xs"
      needs={needs}
      loading={turn.isPending}
      disabledReason={can.includes(verb) ? null : 'It stops at its next step.'}
      onClick={() => turn.mutate()}
      aria-label={`${LABELS[verb]} ${what}`}
    >
      {LABELS[verb]}
    </ActionButton>
  );
}

/** Pause or resume, and cancel: what is left of it is begun anew, or nothing is left. */
export function OperationActions({ operation }: { operation: Operation }) {
  const { id, catalog, target, allowed_actions: can } = operation;
  const parts = { what: `the ${operation.kind} of ${target}`, needs: need(onTable(catalog, target), 'maintain'), can };
  const params = { params: { path: { operation_id: id } } };
  return (
    <span className="row" style={{ gap: 6 }}>
      {operation.status === 'paused' && (
        <OperationAction {...parts} verb="resume" act={() => answered(api.POST('/operations/{operation_id}/resume', params))} />
      )}
      {operation.status === 'running' && operation.kind !== 'downgrade' && (
        <OperationAction {...parts} verb="pause" act={() => answered(api.POST('/operations/{operation_id}/pause', params))} />
      )}
      <OperationAction {...parts} verb="cancel" act={() => answered(api.POST('/operations/{operation_id}/cancel', params))} />
    </span>
  );
}

/** The same for everything that was asked for at once. */
export function BatchActions({ catalog, batch }: { catalog: string; batch: Batch }) {
  const parts = { what: 'all', needs: need(scopeOf(catalog), 'maintain'), can: batch.allowed_actions };
  const params = { params: { path: { catalog, batch: batch.id } } };
  if (batch.allowed_actions.length === 0) return null;
  return (
    <span className="row" style={{ gap: 6 }}>
      {batch.allowed_actions.includes('pause') && (
        <OperationAction {...parts} verb="pause" act={() => answered(api.POST('/catalogs/{catalog}/hive/upgrades/{batch}/pause', params))} />
      )}
      {batch.allowed_actions.includes('resume') && (
        <OperationAction {...parts} verb="resume" act={() => answered(api.POST('/catalogs/{catalog}/hive/upgrades/{batch}/resume', params))} />
      )}
      <OperationAction {...parts} verb="cancel" act={() => answered(api.POST('/catalogs/{catalog}/hive/upgrades/{batch}/cancel', params))} />
    </span>
  );
}
