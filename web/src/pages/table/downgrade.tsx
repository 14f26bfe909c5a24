import { Checkbox } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { answered, api } from '../../api/client';
import { hiveTable, downgradePreview } from '../../api/hive-queries';
import { operation } from '../../api/queries';
import type { DowngradePreview, Table } from '../../api/types';
import { ConfirmDialog } from '../../components/confirm-dialog';
import { When } from '../../components/figures';
import { ProblemNote } from '../../components/notes';
import { Panel } from '../../components/panel';
import { count, many, span } from '../../lib/format';
import { paths } from '../../lib/paths';
import { firn } from '../../lib/terminal';
import { OperationBar } from '../operations';
import { OperationActions } from '../operation-actions';

/** A running downgrade: its progress, and the way to cancel it. */
export function DowngradeProgress({ catalog, hive }: { catalog: string; hive: string }) {
  const { data: known } = useQuery({ ...hiveTable(catalog, hive), refetchInterval: 5000 });
  const id = known?.state === 'downgrading' ? known.operation_id : null;
  const { data: going } = useQuery({ ...operation(id ?? ''), enabled: id !== null });
  if (id === null || going?.ended_at !== null) return null;
  return (
    <Panel title={`Downgrading to Hive as ${hive}`} aside={<OperationActions operation={going} />}>
      <div className="stack">
        <OperationBar operation={going} />
        <span className="dim">
          Closing this page does not stop it. It can be read until the end, and takes no changes but Hive&apos;s; canceled, it takes changes again.
        </span>
      </div>
    </Panel>
  );
}

interface DowngradeDialogProps {
  table: Table;
  hive: string;
  opened: boolean;
  close: () => void;
}

/** Confirms a downgrade, and shows the work that remains. */
export function DowngradeDialog({ table, hive, opened, close }: DowngradeDialogProps) {
  const [watch, setWatch] = useState(true);
  const navigate = useNavigate();
  const { data, error } = useQuery({ ...downgradePreview(table.catalog, hive), enabled: opened });
  return (
    <ConfirmDialog
      title={`Downgrade ${hive} to Hive`}
      opened={opened}
      close={close}
      yes="Downgrade"
      danger
      command={firn('hive downgrade', [hive], { catalog: table.catalog, 'no-wait-for-writers': !watch })}
      act={() =>
        answered(
          api.POST('/catalogs/{catalog}/hive/{full_name}/downgrade', {
            params: { path: { catalog: table.catalog, full_name: hive } },
            body: { wait_for_writers: watch, purge: false },
          }),
        )
      }
      done={() => void navigate(paths.hive(table.catalog))}
    >
      <div className="stack">
        <div>
          Firn publishes all changes to Hive; then the table leaves this catalog. Until then it stays readable, and only Hive can change it. No
          Hive file is touched, and you can cancel.
        </div>
        {error && <ProblemNote error={error} />}
        {data && <div>{describeRemaining(data)}</div>}
        {data && watch && data.blocked === null && <Wait preview={data} />}
        <Checkbox
          label={`Wait ${data && data.grace_seconds > 0 ? `${span(data.grace_seconds)} ` : ''}for Hive jobs started before the last publish`}
          description="Such a job may still write to a directory that the publish replaced."
          checked={watch}
          onChange={(event) => setWatch(event.currentTarget.checked)}
        />
      </div>
    </ConfirmDialog>
  );
}

/** How long a downgrade waits and why, and which writers are known. */
function Wait({ preview }: { preview: DowngradePreview }) {
  const { ends_after: end, wait, directories, directories_in_grace: watched, writers, likely_author: author } = preview;
  if (end === null) return <div className="dim">It waits for no Hive job.</div>;
  return (
    <div className="stack" role="group" aria-label="wait for writers">
      <div>
        It ends <When at={end} /> at the earliest: {wait}.
      </div>
      {writers.map((writer) => (
        <div key={`${writer.holder} ${writer.partition}`}>
          <span className="mono wrap-anywhere">{writer.holder}</span> writes to {writer.partition === '' ? 'the table' : <span className="mono">{writer.partition}</span>}
          {writer.since !== null && (
            <>
              {' '}
              since <When at={writer.since} />
            </>
          )}
        </div>
      ))}
      {writers.length === 0 && (
        <div className="dim">
          No writer holds a lock of the metastore now; Spark takes none.{author !== null && <> To ask: {author}.</>}
        </div>
      )}
      {directories.length > 0 && (
        <details>
          <summary>{`Watches ${watched === 1 ? '1 directory' : `${count(watched)} directories`}`}</summary>
          {directories.map((directory) => (
            <div key={directory.location}>
              <span className="mono wrap-anywhere">{directory.location}</span>, <When at={directory.until} />
            </div>
          ))}
          {watched > directories.length && <div className="dim">and {count(watched - directories.length)} more</div>}
        </details>
      )}
    </div>
  );
}

function describeRemaining(left: DowngradePreview): string {
  if (left.blocked !== null) return `Some changes cannot be published: ${left.blocked}`;
  if (left.drift !== null) return `Fix this first: ${left.drift}`;
  const todo = [
    left.pending_rows > 0 && `merge ${count(left.pending_rows)} changed rows`,
    left.differing > 0 && `publish ${many(left.differing, 'partition')}`,
  ].filter((item) => item !== false);
  return todo.length > 0 ? `Firn will first ${todo.join(' and ')}.` : 'Hive is up to date.';
}
