import { Checkbox, Modal } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answered, api } from '../../api/client';
import { roles } from '../../api/access';
import type { Principal } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { InTerminal } from '../../components/in-terminal';
import { ProblemNote } from '../../components/notes';
import { grantText } from '../../lib/access';
import { firn } from '../../lib/terminal';

const at = (role: string, name: string) => ({ params: { path: { role, name } } });

/** Gives and takes several roles at once. */
export function RolesOf({ principal, close }: { principal: Principal; close: () => void }) {
  const queries = useQueryClient();
  const { data, error } = useQuery(roles());
  const before = new Set(principal.roles.map((role) => role.role));
  const [chosen, choose] = useState(before);
  const added = [...chosen].filter((role) => !before.has(role));
  const removed = [...before].filter((role) => !chosen.has(role));
  const save = useMutation({
    mutationFn: async () => {
      for (const role of added) await answered(api.PUT('/roles/{role}/members/{name}', at(role, principal.name)));
      for (const role of removed) await answered(api.DELETE('/roles/{role}/members/{name}', at(role, principal.name)));
    },
    onSuccess: close,
    // A refusal may come after some were given.
    onSettled: () => queries.invalidateQueries(),
  });
  const commands = [
    ...added.map((role) => firn('role assign', [role, principal.name])),
    ...removed.map((role) => firn('role unassign', [role, principal.name])),
  ];
  const toggle = (role: string, on: boolean) => {
    const next = new Set(chosen);
    if (on) next.add(role);
    else next.delete(role);
    choose(next);
  };
  return (
    <Modal opened onClose={close} title={`Roles of ${principal.name}`} closeButtonProps={{ 'aria-label': 'close' }}>
      <div className="stack">
        {data?.map((role) => {
          const byClaim = principal.roles.some((had) => had.role === role.name && had.by_claim);
          return (
            <Checkbox
              key={role.name}
              size="xs"
              label={<span className="mono">{role.name}</span>}
              description={byClaim ? 'The issuer assigns this role: change the user’s group there.' : role.description || role.grants.map(grantText).join('; ') || 'gives nothing yet'}
              checked={chosen.has(role.name)}
              disabled={byClaim}
              onChange={(event) => toggle(role.name, event.currentTarget.checked)}
            />
          );
        })}
        {commands.length > 0 && <InTerminal command={commands.join('\n')} />}
        {(save.error ?? error) && <ProblemNote error={save.error ?? error} />}
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <ActionButton loading={save.isPending} disabledReason={added.length + removed.length === 0 ? 'Nothing has been changed.' : null} onClick={() => save.mutate()}>
            Save
          </ActionButton>
        </div>
      </div>
    </Modal>
  );
}
