import { Button, Menu, Modal } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconChevronDown } from '@tabler/icons-react';
import { useState } from 'react';

import { answered, api } from '../../api/client';
import type { JobKind, Table } from '../../api/types';
import { ActionButton, ActionMenuItem } from '../../components/action-button';
import { useDo } from '../../components/confirm-dialog';
import { useWhyNot } from '../../components/current-user';
import { need, onTable } from '../../lib/access';
import { KINDS, kindsOf, type StartableKind } from '../../lib/job-kinds';
import { fullName } from '../../lib/paths';
import { PauseOptimization } from './blockers';
import { DropTable } from './drop';
import { DryRun } from './dry-run';
import { Publish } from './publish';

const needsOf = (table: Table) => need(onTable(table.catalog, fullName(table)), 'maintain');
const whyNot = (table: Table, kind: JobKind): string | null => (table.allowed_actions.includes(kind) ? null : (table.unavailable_actions[kind] ?? 'Not available for this table.'));

/** What can be asked for now; what cannot says why. */
export function TableActions({ table }: { table: Table }) {
  const { first, more } = kindsOf(table);
  const [asking, ask] = useState<StartableKind | undefined>();
  return (
    <>
      {first.map((kind) => (
        <ActionButton
          key={kind}
          variant={kind === 'merge' ? 'filled' : 'default'}
          needs={needsOf(table)}
          disabledReason={whyNot(table, kind)}
          onClick={() => ask(kind)}
        >
          {KINDS[kind].label}
        </ActionButton>
      ))}
      {more.length > 0 && <MoreJobs table={table} kinds={more} ask={ask} />}
      {table.hive_name !== null && <Sync table={table} hive={table.hive_name} />}
      {table.hive_name !== null && <Publish table={table} hive={table.hive_name} unavailable={whyNot(table, 'publish')} />}
      <PauseOptimization table={table} />
      <DropTable table={table} />
      <Modal
        opened={asking !== undefined}
        onClose={() => ask(undefined)}
        title={asking === undefined ? '' : `${KINDS[asking].label}: ${fullName(table)}`}
        closeButtonProps={{ 'aria-label': 'close' }}
      >
        {asking !== undefined && <DryRun table={table} kind={asking} close={() => ask(undefined)} />}
      </Modal>
    </>
  );
}

function MoreJobs({ table, kinds, ask }: { table: Table; kinds: StartableKind[]; ask: (kind: StartableKind) => void }) {
  const lacks = useWhyNot()(...needsOf(table));
  return (
    <Menu position="bottom-end" width={250}>
      <Menu.Target>
        <Button variant="default" rightSection={<IconChevronDown size={13} aria-hidden />}>
          More jobs
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {kinds.map((kind) => (
          <ActionMenuItem key={kind} disabledReason={lacks ?? whyNot(table, kind)} onClick={() => ask(kind)}>
            {KINDS[kind].label}…
          </ActionMenuItem>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function Sync({ table, hive }: { table: Table; hive: string }) {
  const sync = useDo('cannot sync', async () => {
    const outcome = await answered(
      api.POST('/catalogs/{catalog}/hive/{full_name}/sync', {
        params: { path: { catalog: table.catalog, full_name: hive }, query: { everything: true } },
      }),
    );
    notifications.show(
      outcome.conflict
        ? { color: 'yellow', title: `${hive} is out of sync and needs a decision`, message: outcome.message, autoClose: 10_000 }
        : { title: outcome.job === null ? `Synced with ${hive}` : `A job syncs with ${hive}`, message: outcome.message },
    );
  });
  return (
    <ActionButton variant="default" loading={sync.isPending} needs={needsOf(table)} disabledReason={whyNot(table, 'sync')} onClick={() => sync.mutate()}>
      Sync
    </ActionButton>
  );
}
