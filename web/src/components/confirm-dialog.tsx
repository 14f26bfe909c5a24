import { Button, Modal } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { notifications } from '@mantine/notifications';
import type { ReactNode } from 'react';

import { asProblem } from '../api/problem';
import { ActionButton } from './action-button';
import { InTerminal } from './in-terminal';
import { ProblemNote } from './notes';

interface AskProps {
  title: string;
  opened: boolean;
  close: () => void;
  children: ReactNode;
  yes: string;
  act: () => Promise<unknown>;
  danger?: boolean;
  /** Why it cannot be done yet. */
  disabledReason?: string | null;
  /** What does the same in a terminal, if anything does. */
  command: string | null;
  done?: () => void;
}

/** Asks once, does it, and stays open with the server's words when it is refused. */
export function ConfirmDialog({ title, opened, close, children, yes, act, danger = false, disabledReason = null, command, done }: AskProps) {
  const queries = useQueryClient();
  const doing = useMutation({
    mutationFn: act,
    onSuccess: () => queries.invalidateQueries(),
  });
  // Not called after `leave`: by then another dialog may be open.
  const end = () => {
    close();
    done?.();
  };
  const leave = () => {
    doing.reset();
    close();
  };
  return (
    <Modal opened={opened} onClose={leave} title={title} closeButtonProps={{ 'aria-label': 'close' }}>
      <div className="stack">
        <div>{children}</div>
        {command !== null && <InTerminal command={command} />}
        {doing.error && <ProblemNote error={doing.error} />}
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button variant="default" onClick={leave}>
            Cancel
          </Button>
          <ActionButton color={danger ? 'red.9' : undefined} loading={doing.isPending} disabledReason={disabledReason} onClick={() => doing.mutate(undefined, { onSuccess: end })} data-autofocus>
            {yes}
          </ActionButton>
        </div>
      </div>
    </Modal>
  );
}

/** A small change at once, without asking; a refusal is shown where notifications are. */
export function useDo(what: string, act: () => Promise<unknown>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: act,
    onSuccess: () => queries.invalidateQueries(),
    onError: (error) => {
      const problem = asProblem(error);
      notifications.show({
        color: 'red',
        title: `${what}: ${problem.message}`,
        message: problem.hint ?? '',
        autoClose: 10_000,
      });
    },
  });
}
