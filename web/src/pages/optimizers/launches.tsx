import { Button, Modal, NumberInput } from '@mantine/core';
import { useMutation, useQueries, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { answered, api } from '../../api/client';
import { launch as launchQuery } from '../../api/queries';
import type { Launch } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { DataTable, type Column } from '../../components/data-table';
import { Count } from '../../components/figures';
import { InTerminal } from '../../components/in-terminal';
import { Mark, WARNING } from '../../components/status-icons';
import { ProblemNote } from '../../components/notes';
import { firn } from '../../lib/terminal';
import { MAINTAIN } from './groups';

interface Launched {
  group: string;
  launch: Launch;
}

const COLUMNS: Column<Launched>[] = [
  { key: 'group', title: 'Group', cell: ({ group }) => <span className="mono">{group}</span> },
  { key: 'kind', title: 'Started as', cell: ({ launch }) => launch.kind },
  { key: 'bounds', title: 'Bounds', cell: ({ launch: { scaling } }) => `${scaling?.minimum ?? 0} to ${scaling?.maximum ?? 1}`, right: true },
  { key: 'wanted', title: 'Wanted', cell: ({ launch }) => <Count value={launch.wanted} />, right: true },
  { key: 'working', title: 'Working', cell: ({ launch }) => <Count value={launch.working} />, right: true },
  { key: 'starting', title: 'Starting', cell: ({ launch }) => <Count value={launch.starting} />, right: true },
  { key: 'draining', title: 'Draining', cell: ({ launch }) => <Count value={launch.draining} />, right: true },
  { key: 'trouble', title: 'Why the server starts no more', cell: ({ launch }) => <Trouble launch={launch} />, wide: true },
  { key: 'act', title: '', cell: (row) => <Scale {...row} />, right: true },
];

function Trouble({ launch }: { launch: Launch }) {
  // The last error stays known for days: it counts only while optimizers are missing.
  const isShort = launch.working + launch.starting < launch.wanted;
  const says = launch.held_back ?? (isShort ? launch.last_error : null);
  if (says === null) return <span className="dim">nothing</span>;
  return (
    <Mark look={{ ...WARNING, says }}>
      <span className="wrap-anywhere">{says}</span>
    </Mark>
  );
}

/** The groups whose optimizers the server starts and watches; nothing is shown while there are none. */
export function Launches({ groups }: { groups: string[] }) {
  const answers = useQueries({ queries: groups.map(launchQuery) });
  const rows = groups.flatMap((group, index): Launched[] => {
    const launch = answers[index]?.data;
    return launch === undefined || launch.kind === 'none' ? [] : [{ group, launch }];
  });
  if (rows.length === 0) return null;
  return <DataTable name="launches" title="Started by the server" columns={COLUMNS} rows={rows} id={({ group }) => group} empty={null} />;
}

function Scale({ group, launch }: Launched) {
  const [opened, open] = useState(false);
  return (
    <>
      <ActionButton variant="default" size="compact-xs" needs={MAINTAIN} onClick={() => open(true)} aria-label={`scale group ${group}`}>
        Scale
      </ActionButton>
      <Modal opened={opened} onClose={() => open(false)} title={`Optimizers of group ${group}`} closeButtonProps={{ 'aria-label': 'close' }}>
        <ScaleForm group={group} launch={launch} close={() => open(false)} />
      </Modal>
    </>
  );
}

function ScaleForm({ group, launch, close }: Launched & { close: () => void }) {
  const queries = useQueryClient();
  const [minimum, setMinimum] = useState(launch.scaling?.minimum ?? 0);
  const [maximum, setMaximum] = useState(launch.scaling?.maximum ?? 1);
  const scale = useMutation({
    mutationFn: () => answered(api.POST('/groups/{group}/scale', { params: { path: { group } }, body: { minimum, maximum } })),
    onSuccess: async () => {
      await queries.invalidateQueries();
      close();
    },
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    scale.mutate();
  };
  return (
    <form onSubmit={submit} className="stack">
      <div>The server starts more when jobs wait too long and drains idle ones, which finish their jobs first.</div>
      <NumberInput size="xs" label="At least" min={0} allowDecimal={false} value={minimum} onChange={(value) => setMinimum(Number(value))} data-autofocus />
      <NumberInput size="xs" label="At most" min={0} allowDecimal={false} value={maximum} onChange={(value) => setMaximum(Number(value))} />
      {maximum >= minimum && <InTerminal command={firn('group scale', [group], { min: minimum, max: maximum })} />}
      {scale.error && <ProblemNote error={scale.error} />}
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <Button variant="default" onClick={close}>
          Cancel
        </Button>
        <ActionButton type="submit" loading={scale.isPending} disabledReason={maximum < minimum ? 'At most cannot be less than at least.' : null}>
          Scale
        </ActionButton>
      </div>
    </form>
  );
}
