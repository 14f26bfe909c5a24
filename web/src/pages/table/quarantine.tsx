import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { answered, api } from '../../api/client';
import { tableQuarantine } from '../../api/stream-queries';
import type { Quarantine, Table } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { ConfirmDialog } from '../../components/confirm-dialog';
import { Count, When } from '../../components/figures';
import { Empty, ProblemNote } from '../../components/notes';
import { Snippet } from '../../components/snippet';
import { need, onTable } from '../../lib/access';
import { dotted } from '../../lib/names';
import { fullName } from '../../lib/paths';
import { firn } from '../../lib/terminal';
import { BadRecords } from './bad-records';
import styles from './changes.module.css';

/** The records of the topic that are no changes of the table: how many, and what to do about them. */
export function QuarantineTab({ table }: { table: Table }) {
  const { data: quarantine, error } = useQuery(tableQuarantine(table.catalog, fullName(table)));
  const [dropping, drop] = useState<Quarantine | undefined>();
  if (error !== null) return <ProblemNote error={error} what="cannot show the quarantine" />;
  if (quarantine === undefined) return null;
  if (quarantine.rows === 0) {
    return <Empty title="No bad records">Drains write records that are no changes of the table to its quarantine, and go on.</Empty>;
  }
  return (
    <div className="stack">
      <div className={styles.head}>
        <div>
          <h2 className={styles.section} style={{ margin: 0 }}>
            <Count value={quarantine.rows} /> bad {quarantine.rows === 1 ? 'record' : 'records'}
          </h2>
          <div className="dim">
            They are no changes of the table, so it does not have them. Changed <When at={quarantine.changed_at} />.
          </div>
        </div>
        <ActionButton variant="default" needs={need(onTable(table.catalog, fullName(table)), 'write')} onClick={() => drop(quarantine)}>
          Drop…
        </ActionButton>
      </div>
      <BadRecords table={table} quarantine={quarantine} />
      <Commands table={table} quarantine={quarantine} />
      {dropping !== undefined && <DropDialog table={table} seen={dropping} close={() => drop(undefined)} />}
    </div>
  );
}

function Commands({ table, quarantine }: { table: Table; quarantine: Quarantine }) {
  const name = fullName(table);
  const rows = `SELECT partition, offset, reason, column, CAST(value AS STRING)\nFROM ${dotted([table.catalog])}.${quarantine.table} ORDER BY at DESC;`;
  return (
    <div className={`stack ${styles.commands}`}>
      <div>List more of them, or read them in an engine:</div>
      <Snippet code={`firn quarantine list ${name}`} label="list command" />
      <Snippet code={rows} label="query" />
      <div>
        After you have corrected the table or its properties, send them again. Those that are changes now go to the table, once each; the others stay. Without a sequence field, they win over
        rows that came since.
      </div>
      <Snippet code={`firn quarantine retry ${name}`} label="retry command" />
    </div>
  );
}

/** The server refuses the drop if a drain has added records that the user has not seen. */
function DropDialog({ table, seen, close }: { table: Table; seen: Quarantine; close: () => void }) {
  return (
    <ConfirmDialog
      title={`Drop the bad records of ${fullName(table)}`}
      opened
      close={close}
      yes="Drop them"
      danger
      command={firn('quarantine drop', [fullName(table)], { catalog: table.catalog })}
      act={() =>
        answered(
          api.POST('/catalogs/{catalog}/tables/{table}/log/quarantine/drop', {
            params: { path: { catalog: table.catalog, table: fullName(table) } },
            body: { snapshot_id: seen.snapshot_id ?? '' },
          }),
        )
      }
    >
      <div>
        <Count value={seen.rows} /> {seen.rows === 1 ? 'record leaves' : 'records leave'} the quarantine, and stay missing in <span className="mono">{fullName(table)}</span>. Older snapshots of the
        quarantine keep them.
      </div>
    </ConfirmDialog>
  );
}
