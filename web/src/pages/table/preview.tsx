import { Button, Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { snapshots } from '../../api/queries';
import { preview } from '../../api/sql-queries';
import type { Table } from '../../api/types';
import { Empty, ProblemNote } from '../../components/notes';
import { ResultTable } from '../../components/result-table';
import { many } from '../../lib/format';
import { fullName, paths } from '../../lib/paths';
import { useUrlState } from '../../lib/url-state';
import styles from './changed-rows.module.css';

/** The first rows that a scan finds; those of a keyed table are merged. */
export function PreviewTab({ table }: { table: Table }) {
  const name = fullName(table);
  const [get, set] = useUrlState();
  const snapshot = get('at');
  const { data, error, isFetching, refetch } = useQuery(preview(table.catalog, name, snapshot));
  return (
    <>
      <div className={styles.bar}>
        {table.kind !== 'keyed' && <SnapshotChoice table={table} value={snapshot} choose={(at) => set({ at })} />}
        <Button variant="default" loading={isFetching} onClick={() => void refetch()}>
          Read again
        </Button>
        <Button variant="default" component={Link} to={paths.sql(table.catalog, `SELECT *\nFROM ${name}\nLIMIT 100`)}>
          Open in SQL
        </Button>
        {data !== undefined && (
          <span className="dim" role="status">
            {many(data.rows.length, 'row')}
            {data.truncated ? ' of more, in no particular order' : ', all there are'}
            {data.notes.map((note) => `; ${note}`)}
          </span>
        )}
      </div>
      {error !== null && (
        <div style={{ padding: 12 }}>
          <ProblemNote error={error} what="cannot show rows" />
        </div>
      )}
      {data === undefined && error === null && <Empty title="Reading the first rows…" />}
      {data?.rows.length === 0 && <Empty title="The table has no rows here" />}
      {data !== undefined && data.rows.length > 0 && <ResultTable key={data.snapshot_id} name="first rows" columns={data.columns} rows={data.rows} />}
    </>
  );
}

function SnapshotChoice({ table, value, choose }: { table: Table; value: string | undefined; choose: (at: string | undefined) => void }) {
  const { data = [] } = useQuery(snapshots(table.catalog, fullName(table)));
  const choices = data.map((snapshot) => ({ value: snapshot.snapshot_id, label: `${new Date(snapshot.committed_at).toLocaleString('en-GB')} · ${snapshot.operation}` }));
  const known = value === undefined || choices.some((choice) => choice.value === value) ? [] : [{ value, label: value }];
  return (
    <Select
      label="At snapshot"
      w={290}
      value={value ?? ''}
      data={[{ value: '', label: 'the current one' }, ...known, ...choices]}
      searchable
      onChange={(at) => choose(at ?? undefined)}
    />
  );
}
