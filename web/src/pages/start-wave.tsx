import { FileInput, Modal, NumberInput, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answered, api } from '../api/client';
import { migration, type HiveFilter } from '../api/hive-queries';
import { ActionButton } from '../components/action-button';
import { Bytes } from '../components/figures';
import { InTerminal } from '../components/in-terminal';
import { Note, ProblemNote } from '../components/notes';
import { need, scopeOf } from '../lib/access';
import { many } from '../lib/format';
import { commandOf } from '../lib/migration-command';

interface StartWaveProps {
  catalog: string;
  filter: HiveFilter;
}

/** All tables that match, on the server, whatever the page has loaded: check them, or upgrade those that can be. */
export function StartWave({ catalog, filter }: StartWaveProps) {
  const { data } = useQuery(migration(catalog, filter));
  // Those that an upgrade takes; a failed table may be blocked now.
  const { data: ready } = useQuery(migration(catalog, { ...filter, state: 'hive' }));
  const [opened, setOpened] = useState<'check' | 'upgrade' | undefined>();
  if (data === undefined) return null;
  const count = (state: string) => data.states.find((item) => item.state === state)?.tables ?? 0;
  const eligible = filter.state === undefined || filter.state === 'hive' ? (ready?.tables ?? 0) : 0;
  const open = data.tables - count('upgraded');
  const scope = scopeOf(catalog, filter.database === undefined ? undefined : [filter.database]);
  return (
    <div className="row row-wrap">
      <span className="grow" style={{ flexBasis: 200 }}>
        {many(data.tables, 'matching table')}, {data.bytes === null ? 'size unknown' : <Bytes value={data.bytes} />}
      </span>
      <ActionButton variant="default" needs={need(scope, 'read')} disabledReason={open === 0 ? 'All matching tables are upgraded.' : null} onClick={() => setOpened('check')}>
        {open === 1 ? 'Check 1 table' : `Check all ${many(open, 'table')}`}
      </ActionButton>
      <ActionButton needs={need(scope, 'create', 'read')} disabledReason={eligible === 0 ? 'No matching table can be upgraded as it is.' : null} onClick={() => setOpened('upgrade')}>
        {`Upgrade ${many(eligible, 'eligible table')}`}
      </ActionButton>
      {opened !== undefined && <Wave catalog={catalog} filter={filter} upgrade={opened === 'upgrade'} tables={opened === 'upgrade' ? eligible : open} close={() => setOpened(undefined)} />}
    </div>
  );
}

interface WaveProps extends StartWaveProps {
  upgrade: boolean;
  tables: number;
  close: () => void;
}

function Wave({ catalog, filter, upgrade, tables, close }: WaveProps) {
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [stopAfter, setStopAfter] = useState<number | string>(1);
  const [keys, setKeys] = useState<File | null>(null);
  // An upgrade takes the tables that can be upgraded, among them those whose last upgrade failed.
  const only: HiveFilter = upgrade ? { ...filter, state: 'hive' } : filter;
  const stop = upgrade && typeof stopAfter === 'number' ? stopAfter : null;
  const start = useMutation({
    mutationFn: async () =>
      answered(
        api.POST('/catalogs/{catalog}/hive/upgrade', {
          params: { path: { catalog } },
          body: { tables: [], filter: whole(only), keys: {}, key_file: keys === null ? '' : await keys.text(), properties: {}, dry_run: !upgrade, name, stop_after: stop },
        }),
      ),
    onSuccess: () => {
      close();
      void queries.invalidateQueries();
    },
  });
  const title = upgrade ? `Upgrade ${many(tables, 'table')}` : `Check ${many(tables, 'table')}`;
  return (
    <Modal opened onClose={close} title={title} size="lg" closeButtonProps={{ 'aria-label': 'close' }}>
      <div className="stack">
        {start.error && <ProblemNote error={start.error} />}
        <Note title={upgrade ? 'Files stay where they are, and Hive goes on reading and writing them.' : 'A check reads directories and changes nothing.'}>
          The server selects all tables that match when you press the button, also those that this page has not loaded. It works on a few at a time, and goes on if you close the page or
          restart the server.
        </Note>
        <TextInput label="Name" placeholder="sales, first wave" maxLength={255} value={name} onChange={(event) => setName(event.currentTarget.value)} data-autofocus />
        {upgrade && <NumberInput label="Stop after failures" description="The wave pauses when so many tables have failed. Empty: it never stops." min={1} max={1_000_000} allowDecimal={false} value={stopAfter} onChange={setStopAfter} />}
        <FileInput
          label="Keys"
          description="CSV with the columns table, primary_key and, if you like, sequence_field. Tables without a line become plain tables."
          placeholder="keys.csv"
          accept=".csv,text/csv"
          clearable
          clearButtonProps={{ 'aria-label': 'no keys' }}
          value={keys}
          onChange={setKeys}
        />
        <InTerminal command={commandOf(catalog, only, { name, stopAfter: stop, keys: keys?.name ?? null, dryRun: !upgrade })} />
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <ActionButton variant="default" onClick={close}>
            Cancel
          </ActionButton>
          <ActionButton loading={start.isPending} disabledReason={keys !== null && keys.size > 4 * 1024 * 1024 ? 'The file of keys is larger than 4 MiB.' : null} onClick={() => start.mutate()}>
            {upgrade ? 'Start upgrades' : 'Start checks'}
          </ActionButton>
        </div>
      </div>
    </Modal>
  );
}

/** The request names each part of the filter. */
function whole(only: HiveFilter) {
  return { out_of_sync: false, failed: false, ...only };
}
