import { Modal } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { notifications } from '@mantine/notifications';

import { answered, api } from '../../api/client';
import type { Job, Planned, Table } from '../../api/types';
import { Act } from '../../components/act';
import { useDo } from '../../components/ask';
import { ProblemNote } from '../../components/notes';
import { Facts } from '../../components/panel';
import { need, onTable } from '../../lib/access';
import { bytes } from '../../lib/format';
import { fullName } from '../../lib/paths';
import { DropTable } from './drop';

type Kind = 'merge' | 'rewrite' | 'clean' | 'expire';

const ACTIONS: Record<Kind, { label: string; says: string }> = {
  merge: {
    label: 'Merge now',
    says: 'An optimizer brings the pending changes into the base store. Readers see the same rows before, during and after it.',
  },
  rewrite: {
    label: 'Rewrite',
    says: 'An optimizer packs small files into larger ones. Rows do not change; the old files stay for as long as snapshots need them.',
  },
  clean: {
    label: 'Clean',
    says: 'An optimizer takes changes that are merged already out of the change store. Readers see the same rows.',
  },
  expire: {
    label: 'Expire',
    says: 'Old snapshots are removed, and with them the files that Firn wrote and nothing else needs. Time travel to them ends; this cannot be undone.',
  },
};

/** What can be asked for now; what cannot says why. */
export function TableActions({ table }: { table: Table }) {
  const kinds: Kind[] = table.kind === 'keyed' ? ['merge', 'rewrite', 'clean', 'expire'] : ['rewrite', 'expire'];
  const [asking, ask] = useState<Kind | undefined>();
  return (
    <>
      {kinds.map((kind, index) => (
        <Act
          key={kind}
          variant={index === 0 && table.kind === 'keyed' ? 'filled' : 'default'}
          needs={need(onTable(table.catalog, fullName(table)), 'maintain')}
          disabledReason={table.can.includes(kind) ? null : (table.cannot[kind] ?? 'This table does not take it.')}
          onClick={() => ask(kind)}
        >
          {ACTIONS[kind].label}
        </Act>
      ))}
      {table.hive_name !== null && <Sync table={table} hive={table.hive_name} />}
      <DropTable table={table} />
      <Modal
        opened={asking !== undefined}
        onClose={() => ask(undefined)}
        title={asking === undefined ? '' : `${ACTIONS[asking].label}: ${fullName(table)}`}
        closeButtonProps={{ 'aria-label': 'close' }}
      >
        {asking !== undefined && <DryRun table={table} kind={asking} close={() => ask(undefined)} />}
      </Modal>
    </>
  );
}

function Sync({ table, hive }: { table: Table; hive: string }) {
  const sync = useDo('cannot sync', async () => {
    const outcome = await answered(
      api.POST('/catalogs/{catalog}/hive/{full_name}/sync', {
        params: { path: { catalog: table.catalog, full_name: hive }, query: { everything: true } },
      }),
    );
    notifications.show({ title: `Synced with ${hive}`, message: outcome.did });
  });
  return (
    <Act
      variant="default"
      loading={sync.isPending}
      needs={need(onTable(table.catalog, fullName(table)), 'maintain')}
      disabledReason={table.can.includes('sync') ? null : (table.cannot.sync ?? 'This table is not linked to Hive.')}
      onClick={() => sync.mutate()}
    >
      Sync
    </Act>
  );
}

/** Starts a job, or with `dry` only says what it would find. */
function post(table: Table, kind: Kind, dry: boolean): Promise<Job | Planned> {
  const options = { params: { path: { catalog: table.catalog, table: fullName(table) }, query: { dry_run: dry } } };
  switch (kind) {
    case 'merge':
      return answered(api.POST('/catalogs/{catalog}/tables/{table}/merge', options));
    case 'rewrite':
      return answered(api.POST('/catalogs/{catalog}/tables/{table}/rewrite', options));
    case 'clean':
      return answered(api.POST('/catalogs/{catalog}/tables/{table}/clean', options));
    case 'expire':
      return answered(api.POST('/catalogs/{catalog}/tables/{table}/expire', options));
  }
}

/** How many, and how large where that is known. */
function touched(one: Planned['touches'][number]): string {
  const count = one.count.toLocaleString('en-US');
  return one.bytes === null ? count : `${count}, ${bytes(one.bytes)}`;
}

function DryRun({ table, kind, close }: { table: Table; kind: Kind; close: () => void }) {
  const queries = useQueryClient();
  const dry = useQuery({
    queryKey: ['dry-run', table.catalog, fullName(table), kind, table.version, table.snapshots],
    queryFn: async () => (await post(table, kind, true)) as Planned,
  });
  const start = useMutation({
    mutationFn: () => post(table, kind, false),
    onSuccess: async () => {
      await queries.invalidateQueries();
      close();
    },
  });
  return (
    <div className="stack">
      <div>{ACTIONS[kind].says}</div>
      {dry.data && (
        <>
          <div>
            It would <b>{dry.data.would}</b>.
          </div>
          <Facts facts={dry.data.touches.map((one) => ({ name: one.what, value: touched(one) }))} />
          {dry.data.notes.map((note) => (
            <div key={note}>{note}</div>
          ))}
        </>
      )}
      {(dry.error ?? start.error) && <ProblemNote error={dry.error ?? start.error} />}
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <Act variant="default" onClick={close}>
          Not now
        </Act>
        <Act loading={start.isPending} onClick={() => start.mutate()}>
          {ACTIONS[kind].label}
        </Act>
      </div>
    </div>
  );
}
