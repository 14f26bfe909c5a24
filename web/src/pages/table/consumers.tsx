import { Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { answered, api } from '../../api/client';
import { consumers, versions } from '../../api/stream-queries';
import type { Consumer, Table } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { ConfirmDialog } from '../../components/confirm-dialog';
import { DataTable, type Column } from '../../components/data-table';
import { Count, Span, useNow, When } from '../../components/figures';
import { Empty } from '../../components/notes';
import { BROKEN, HEALTHY, Mark, NEVER_RAN } from '../../components/status-icons';
import { need, onTable } from '../../lib/access';
import { versionChoices } from '../../lib/changes';
import { many } from '../../lib/format';
import { dotted } from '../../lib/names';
import { fullName } from '../../lib/paths';
import { consumerState, describeReset } from '../../lib/streams';
import { firn } from '../../lib/terminal';

function State({ consumer }: { consumer: Consumer }) {
  const state = consumerState(consumer);
  if (state === 'behind') {
    return (
      <Mark look={BROKEN}>
        <span title={`version ${consumer.version} has expired`}>behind: the first version left is {consumer.first_version_left}</span>
      </Mark>
    );
  }
  return (
    <>
      <Mark look={state === 'current' ? { ...HEALTHY, says: 'up to date' } : { ...NEVER_RAN, says: 'has changes to read' }} />
      {state === 'waiting' && (
        <div className="dim" title="each move makes it later">
          expiry keeps them; that ends <When at={consumer.kept_until} />
        </div>
      )}
    </>
  );
}

function Moved({ consumer }: { consumer: Consumer }) {
  return (
    <>
      <When at={consumer.moved_at} />
      {consumer.owner !== null && <div className="dim">by {consumer.owner}</div>}
    </>
  );
}

const columns = (table: Table, reset: (row: Consumer) => void, drop: (row: Consumer) => void): Column<Consumer>[] => {
  const needs = need(onTable(table.catalog, fullName(table)), 'read');
  return [
    {
      key: 'name',
      title: 'Consumer',
      cell: (row) => (
        <div className="mono truncate" style={{ maxWidth: 190 }} title={row.name}>
          {row.name}
        </div>
      ),
    },
    { key: 'state', title: 'State', cell: (row) => <State consumer={row} />, wide: true },
    { key: 'version', title: 'Version', cell: (row) => <Count value={row.version} />, right: true, help: 'it has the changes up to this version' },
    { key: 'versions', title: 'Unread versions', cell: (row) => <Count value={row.lag_versions} />, right: true },
    { key: 'rows', title: 'Unread rows', cell: (row) => <Count value={row.lag_rows} />, right: true },
    { key: 'lag', title: 'Lag', cell: (row) => (row.lag_seconds > 0 ? <Span seconds={row.lag_seconds} /> : <span className="dim">none</span>), right: true },
    { key: 'moved', title: 'Last move', cell: (row) => <Moved consumer={row} />, right: true },
    {
      key: 'act',
      title: '',
      cell: (row) => (
        <span className="row" style={{ gap: 4, justifyContent: 'flex-end' }}>
          <ActionButton size="compact-xs" variant="default" needs={needs} onClick={() => reset(row)} aria-label={`reset ${row.name}`}>
            Reset…
          </ActionButton>
          <ActionButton size="compact-xs" variant="default" needs={needs} onClick={() => drop(row)} aria-label={`drop ${row.name}`}>
            Drop…
          </ActionButton>
        </span>
      ),
      right: true,
    },
  ];
};

/** Who reads the changes of a table, and how far. */
export function Consumers({ table }: { table: Table }) {
  const name = fullName(table);
  const { data, error } = useQuery(consumers(table.catalog, name));
  const [resetting, reset] = useState<Consumer | undefined>();
  const [dropping, drop] = useState<Consumer | undefined>();
  const full = `${dotted([table.catalog])}.${name}`;
  return (
    <>
      <DataTable
        plain
        name="consumers"
        columns={columns(table, reset, drop)}
        rows={data}
        error={error}
        id={(row) => row.name}
        empty={
          <Empty title="No consumer has registered">
            <code className="mono">client.tables["{full}"].consumers.move("…")</code> registers a program at the newest version.{' '}
            <code className="mono">firn.spark.on_changes("{full}", function, consumer="…")</code> reads with one.
          </Empty>
        }
      />
      {resetting !== undefined && <ResetDialog table={table} consumer={resetting} close={() => reset(undefined)} />}
      <DropDialog table={table} consumer={dropping} close={() => drop(undefined)} />
    </>
  );
}

function ResetDialog({ table, consumer, close }: { table: Table; consumer: Consumer; close: () => void }) {
  const now = useNow();
  const { data = [] } = useQuery(versions(table.catalog, fullName(table)));
  const newest = consumer.version + consumer.lag_versions;
  const [to, choose] = useState(String(consumer.first_version_left ?? newest));
  const choices = versionChoices(data, now, [to]).filter(({ value }) => Number(value) >= (consumer.first_version_left ?? 0));
  return (
    <ConfirmDialog
      title={`Reset consumer ${consumer.name}`}
      opened
      close={close}
      yes="Reset it"
      command={firn('consumer reset', [fullName(table), consumer.name], { catalog: table.catalog, to })}
      act={() =>
        answered(
          api.POST('/catalogs/{catalog}/tables/{table}/consumers/{consumer}', {
            params: { path: { catalog: table.catalog, table: fullName(table), consumer: consumer.name } },
            body: { to, expected_version: consumer.version },
          }),
        )
      }
    >
      <div className="stack">
        <Select label="Version up to which it has the changes" value={to} onChange={(value) => choose(value ?? to)} data={choices} searchable />
        <div>
          <b>{describeReset(consumer.version, Number(to))}</b> If the program runs now, the server refuses its next move, and it fails.
        </div>
        {consumer.first_version_left !== null && (
          <div>
            Version {consumer.version} has expired, so nobody can read the changes after it. Let the program read the table as a whole before you reset it.
          </div>
        )}
      </div>
    </ConfirmDialog>
  );
}

function DropDialog({ table, consumer, close }: { table: Table; consumer: Consumer | undefined; close: () => void }) {
  return (
    <ConfirmDialog
      title={`Drop consumer ${consumer?.name ?? ''}`}
      opened={consumer !== undefined}
      close={close}
      yes="Drop it"
      danger
      command={firn('consumer drop', [fullName(table), consumer?.name ?? ''], { catalog: table.catalog })}
      act={() =>
        answered(
          api.DELETE('/catalogs/{catalog}/tables/{table}/consumers/{consumer}', {
            params: { path: { catalog: table.catalog, table: fullName(table), consumer: consumer?.name ?? '' } },
          }),
        )
      }
    >
      Expiry keeps nothing for it any more, and its version is forgotten.{' '}
      {consumer !== undefined && consumer.lag_versions > 0 && `It has not read ${many(consumer.lag_versions, 'version')} yet. `}A program that reads under this name fails at its next
      read. It may register again, and then begins at the newest version.
    </ConfirmDialog>
  );
}
