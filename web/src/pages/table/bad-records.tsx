import { Modal } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { badRecord, badRecords } from '../../api/stream-queries';
import type { BadReason, BadRecord, Quarantine, Table } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { DataTable, type Column } from '../../components/data-table';
import { Count, When } from '../../components/figures';
import { InTerminal } from '../../components/in-terminal';
import { ProblemNote } from '../../components/notes';
import { Snippet } from '../../components/snippet';
import { need, onTable } from '../../lib/access';
import { fullName } from '../../lib/paths';
import { firn } from '../../lib/terminal';
import styles from './changes.module.css';

const REASONS: Column<BadReason>[] = [
  { key: 'reason', title: 'Reason', cell: (row) => <span className="wrap-anywhere">{row.reason}</span>, wide: true },
  { key: 'column', title: 'Column', cell: (row) => (row.column === null ? <span className="dim">–</span> : <span className="mono wrap-anywhere">{row.column}</span>) },
  { key: 'records', title: 'Records', cell: (row) => <Count value={row.records} />, right: true },
];

const records = (table: Table, show: (row: BadRecord) => void): Column<BadRecord>[] => [
  { key: 'place', title: 'Partition, offset', cell: (row) => <span className="mono">{`${row.partition}, ${row.offset}`}</span> },
  { key: 'reason', title: 'Reason', cell: (row) => <span className="wrap-anywhere">{row.reason}</span>, wide: true },
  { key: 'at', title: 'Met', cell: (row) => (row.at === null ? null : <When at={row.at} />), right: true },
  {
    key: 'act',
    title: '',
    cell: (row) => (
      <ActionButton
        size="compact-xs"
        variant="default"
        needs={need(onTable(table.catalog, fullName(table)), 'read')}
        onClick={() => show(row)}
        aria-label={`show the record at offset ${row.offset} of partition ${row.partition}`}
      >
        Show
      </ActionButton>
    ),
    right: true,
  },
];

/** Why records are bad, by count, and the newest of them; each can be shown as a whole. */
export function BadRecords({ table, quarantine }: { table: Table; quarantine: Quarantine }) {
  const { data, error } = useQuery(badRecords(table.catalog, fullName(table), quarantine.snapshot_id));
  const [shown, show] = useState<BadRecord | undefined>();
  if (error !== null) return <ProblemNote error={error} what="cannot read the bad records" />;
  return (
    <>
      <DataTable plain name="reasons" columns={REASONS} rows={data?.reasons} id={(row) => `${row.reason} ${row.column ?? ''}`} empty={null} />
      <div className={styles.commands}>
        <h3 className={styles.section} style={{ margin: 0 }}>
          The newest records
        </h3>
      </div>
      <DataTable plain name="bad records" columns={records(table, show)} rows={data?.records} id={(row) => `${row.topic_id ?? ''} ${row.partition} ${row.offset}`} empty={null} />
      {shown !== undefined && <RecordDialog table={table} place={shown} close={() => show(undefined)} />}
    </>
  );
}

function RecordDialog({ table, place, close }: { table: Table; place: BadRecord; close: () => void }) {
  const { data, error } = useQuery(badRecord(table.catalog, fullName(table), place.partition, place.offset));
  const record = data?.find((row) => row.topic_id === place.topic_id);
  return (
    <Modal opened onClose={close} size="lg" title={`Partition ${place.partition}, offset ${place.offset}`} closeButtonProps={{ 'aria-label': 'close' }}>
      <div className="stack">
        <div className="wrap-anywhere">
          {place.reason}
          {place.column !== null && (
            <>
              {' '}
              (column <span className="mono">{place.column}</span>)
            </>
          )}
          .
        </div>
        {error !== null && <ProblemNote error={error} what="cannot read the record" />}
        {data !== undefined && record === undefined && <div className="dim">It is no longer in the quarantine.</div>}
        {record !== undefined && <Parts record={record} />}
        <InTerminal command={firn('quarantine show', [fullName(table), String(place.partition), String(place.offset)], { catalog: table.catalog })} />
      </div>
    </Modal>
  );
}

function Parts({ record }: { record: BadRecord }) {
  const headers = record.headers.map(({ name, value }) => ({ name: `header ${name}`, text: value, isCut: record.cut.includes(name) }));
  const parts = [
    { name: 'key', text: record.key, isCut: record.cut.includes('key') },
    { name: 'value', text: record.value, isCut: record.cut.includes('value') },
    ...headers,
  ];
  return (
    <>
      {record.timestamp !== null && (
        <div>
          written <When at={record.timestamp} />
        </div>
      )}
      {parts.map(({ name, text, isCut }, place) => (
        <div key={place}>
          <div className="dim">
            {name}
            {isCut && ', cut off'}
          </div>
          {text === null ? <span className="dim">none</span> : <Snippet code={text} label={name} />}
        </div>
      ))}
    </>
  );
}
