import { Checkbox } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { answered, api } from '../../api/client';
import { hiveTable, leftToDo, operation } from '../../api/queries';
import type { LeftToDo, Table } from '../../api/types';
import { Ask } from '../../components/ask';
import { ProblemNote } from '../../components/notes';
import { Panel } from '../../components/panel';
import { count, many } from '../../lib/format';
import { paths } from '../../lib/paths';
import { OperationBar } from '../operations';
import { Turns } from '../turns';

/** A table that is being given back: how far that is, and the way out of it. */
export function GivingBack({ catalog, hive }: { catalog: string; hive: string }) {
  const { data: known } = useQuery({ ...hiveTable(catalog, hive), refetchInterval: 5000 });
  const id = known?.state === 'downgrading' ? known.operation_id : null;
  const { data: going } = useQuery({ ...operation(id ?? ''), enabled: id !== null });
  if (id === null || going?.ended_at !== null) return null;
  return (
    <Panel title={`Being given back to Hive as ${hive}`} aside={<Turns operation={going} />}>
      <div className="stack">
        <OperationBar operation={going} />
        <span className="dim">
          Closing this page does not stop it. It can be read until the end, and takes no changes but Hive&apos;s; canceled, it takes changes again.
        </span>
      </div>
    </Panel>
  );
}

interface GiveBackProps {
  table: Table;
  hive: string;
  opened: boolean;
  close: () => void;
}

/** Asks whether a table is to be Hive's alone again, and says what that takes. */
export function GiveBack({ table, hive, opened, close }: GiveBackProps) {
  const [watch, setWatch] = useState(true);
  const navigate = useNavigate();
  const { data, error } = useQuery({ ...leftToDo(table.catalog, hive), enabled: opened });
  return (
    <Ask
      title={`Give ${hive} back to Hive`}
      opened={opened}
      close={close}
      yes="Give it back"
      danger
      act={() =>
        answered(
          api.POST('/catalogs/{catalog}/hive/{full_name}/downgrade', {
            params: { path: { catalog: table.catalog, full_name: hive } },
            body: { watch, purge: false },
          }),
        )
      }
      done={() => void navigate(paths.hive(table.catalog))}
    >
      <div className="stack">
        <div>
          Hive gets everything that was changed here; then the table leaves this catalog. Until it does it can be read, and takes no changes but Hive's. No
          file of Hive's is touched, and it can be canceled.
        </div>
        {error && <ProblemNote error={error} />}
        {data && <div>{whatIsLeft(data)}</div>}
        <Checkbox
          label="Wait for writers that may know former directories"
          description="Hive jobs that began before a partition was published elsewhere may still write where it was."
          checked={watch}
          onChange={(event) => setWatch(event.currentTarget.checked)}
        />
      </div>
    </Ask>
  );
}

function whatIsLeft(left: LeftToDo): string {
  if (left.blocked !== null) return `Hive cannot be given everything: ${left.blocked}`;
  if (left.drift !== null) return `Mend this first: ${left.drift}`;
  const todo = [
    left.pending_rows > 0 && `${count(left.pending_rows)} changed rows are merged`,
    left.differing > 0 && `${many(left.differing, 'partition')} published`,
  ].filter((one) => one !== false);
  return todo.length > 0 ? `To be done first: ${todo.join(', ')}.` : 'Hive has everything already.';
}
