import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';

import { answered, api } from '../../api/client';
import { tableLog, writers } from '../../api/stream-queries';
import type { Table, Writer } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { ConfirmDialog } from '../../components/confirm-dialog';
import { DataTable, type Column } from '../../components/data-table';
import { Count, When } from '../../components/figures';
import { DISABLED, HEALTHY, Mark, NEVER_RAN } from '../../components/status-icons';
import { Empty } from '../../components/notes';
import { need, onTable } from '../../lib/access';
import { dotted } from '../../lib/names';
import { fullName } from '../../lib/paths';
import { LOG_WRITER, logOf, positionLines, positionText, waitingText, writerState } from '../../lib/streams';
import { firn } from '../../lib/terminal';
import { Consumers } from './consumers';
import styles from './changes.module.css';

const LOOKS = {
  fenced: { ...DISABLED, says: 'fenced for good' },
  new: { ...NEVER_RAN, says: 'has not committed yet' },
  open: { ...HEALTHY, says: 'may commit' },
};

/** Who brings rows and up to where, and who reads changes and up to where. */
export function WritersTab({ table }: { table: Table }) {
  return (
    <>
      <Heading title="Writers">Programs that bring the records of a source. The table remembers up to where it has them.</Heading>
      <Writers table={table} />
      {table.kind === 'keyed' && (
        <>
          <Heading title="Consumers">Programs that read changes. Snapshot expiry keeps the versions that they have not read.</Heading>
          <Consumers table={table} />
        </>
      )}
    </>
  );
}

function Heading({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className={styles.head}>
      <div>
        <h2 className={styles.section} style={{ margin: 0 }}>
          {title}
        </h2>
        <div className="dim">{children}</div>
      </div>
    </div>
  );
}

function Writers({ table }: { table: Table }) {
  const name = fullName(table);
  const log = logOf(table);
  const query = useInfiniteQuery(writers(table.catalog, name));
  const { data: state } = useQuery({ ...tableLog(table.catalog, name), enabled: log !== null });
  const [fencing, fence] = useState<Writer | undefined>();
  const isDrain = (writer: Writer) => log !== null && writer.name === LOG_WRITER;
  const columns: Column<Writer>[] = [
    { key: 'name', title: 'Writer', cell: (row) => <Name writer={row} note={isDrain(row) ? 'drains' : null} /> },
    { key: 'state', title: 'State', cell: (row) => <Mark look={LOOKS[writerState(row)]} /> },
    { key: 'epoch', title: 'Epoch', cell: (row) => <Count value={row.epoch} />, right: true, help: 'how often a copy of it has registered; only the last one may commit' },
    {
      key: 'position',
      title: 'Position',
      cell: (row) => (
        <div className="mono truncate" style={{ maxWidth: 260 }} title={row.position === null ? undefined : positionLines(row.position)}>
          {positionText(row.position)}
        </div>
      ),
      wide: true,
    },
    ...(log === null
      ? []
      : [
          {
            key: 'lag',
            title: 'Lag',
            cell: (row: Writer) => (isDrain(row) && state !== undefined ? waitingText(state.lag) : <span className="dim" title="Firn knows the source of drains only">not known</span>),
          },
        ]),
    { key: 'committed', title: 'Last commit', cell: (row) => <When at={row.committed_at} />, right: true },
    { key: 'registered', title: 'Registered', cell: (row) => <Registered writer={row} />, right: true },
    {
      key: 'act',
      title: '',
      cell: (row) => (
        <ActionButton
          size="compact-xs"
          variant="default"
          needs={need(onTable(table.catalog, name), 'write')}
          disabledReason={row.fenced_at !== null ? 'It is fenced already.' : isDrain(row) ? 'Drains commit under this name: without it, nobody could drain the log any more.' : null}
          onClick={() => fence(row)}
          aria-label={`fence ${row.name}`}
        >
          Fence…
        </ActionButton>
      ),
      right: true,
    },
  ];
  const full = `${dotted([table.catalog])}.${name}`;
  return (
    <>
      <DataTable
        plain
        name="writers"
        columns={columns}
        rows={query.data?.pages.flatMap((page) => page.items)}
        error={query.error}
        id={(row) => row.name}
        more={{ has: query.hasNextPage, loading: query.isFetchingNextPage, load: () => void query.fetchNextPage() }}
        empty={
          <Empty title="No writer has registered">
            <code className="mono">firn.spark.resume("{full}", writer="…", topic="…")</code> registers one for a query in Spark. Other programs call{' '}
            <code className="mono">client.tables["{full}"].writers.register("…")</code> before they read their source.
          </Empty>
        }
      />
      <FenceDialog table={table} writer={fencing} close={() => fence(undefined)} />
    </>
  );
}

/** Names are whatever programs choose, up to 255 characters. */
function Name({ writer, note }: { writer: Writer; note: string | null }) {
  return (
    <div style={{ maxWidth: 190 }}>
      <div className="mono truncate" title={writer.name}>
        {writer.name}
      </div>
      {note !== null && <div className="dim">{note}</div>}
    </div>
  );
}

function Registered({ writer }: { writer: Writer }) {
  return (
    <>
      <When at={writer.registered_at} />
      {writer.registered_by !== null && <div className="dim">by {writer.registered_by}</div>}
    </>
  );
}

function FenceDialog({ table, writer, close }: { table: Table; writer: Writer | undefined; close: () => void }) {
  return (
    <ConfirmDialog
      title={`Fence writer ${writer?.name ?? ''}`}
      opened={writer !== undefined}
      close={close}
      yes="Fence it for good"
      danger
      command={firn('writer fence', [fullName(table), writer?.name ?? ''], { catalog: table.catalog })}
      act={() =>
        answered(
          api.DELETE('/catalogs/{catalog}/tables/{table}/writers/{writer}', {
            params: { path: { catalog: table.catalog, table: fullName(table), writer: writer?.name ?? '' } },
          }),
        )
      }
    >
      <div className="stack">
        <div>
          The server refuses all further commits of this writer, and nobody can register under its name again. This cannot be undone. The rows that it has brought stay in{' '}
          <span className="mono">{fullName(table)}</span>.
        </div>
        <div>To end one copy of a program only, start another one: it registers, and the server refuses the commits of the older copy.</div>
      </div>
    </ConfirmDialog>
  );
}
