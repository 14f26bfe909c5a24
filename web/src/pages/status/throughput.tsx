import type { Status } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { Bytes, Count } from '../../components/figures';
import { Choice } from '../../components/choice';
import { JobMark } from '../../components/status-icons';
import { paths } from '../../lib/paths';
import { useUrlState } from '../../lib/url-state';
import styles from './status.module.css';

type Done = Status['last_day']['by_kind'][number];

const COLUMNS: Column<Done>[] = [
  { key: 'kind', title: 'Job', cell: (row) => <span style={{ fontWeight: 500 }}>{row.kind}</span> },
  { key: 'status', title: 'Outcome', cell: (row) => <JobMark status={row.status} />, wide: true },
  { key: 'jobs', title: 'Jobs', cell: (row) => <Count value={row.jobs} />, right: true },
  { key: 'tables', title: 'Tables', cell: (row) => <Count value={row.tables} />, right: true },
  { key: 'rewritten', title: 'Rewritten', cell: (row) => <Bytes value={row.bytes_rewritten || null} />, right: true },
  { key: 'freed', title: 'Freed', cell: (row) => <Bytes value={row.bytes_freed || null} />, right: true },
];

/** What was done within the last hour or day, by kind of job. */
export function Throughput({ work }: { work: Status }) {
  const [get, set] = useUrlState();
  const within = get('within') ?? 'hour';
  const done = within === 'day' ? work.last_day : work.last_hour;
  return (
    <DataTable
      name="completed jobs"
      title="Completed jobs"
      aside={
        <Choice
          label="within"
          value={within}
          set={(value) => set({ within: value === 'hour' ? undefined : value })}
          options={[
            { value: 'hour', label: 'Last hour' },
            { value: 'day', label: 'Last day' },
          ]}
        />
      }
      columns={COLUMNS}
      rows={done.by_kind}
      id={(row) => `${row.kind} ${row.status}`}
      link={(row) => `${paths.jobs()}?kind=${row.kind}&show=${row.status === 'failed' ? 'failed' : 'history'}`}
      empty={<p className={`dim ${styles.quiet}`}>No job has ended within the last {within}.</p>}
    />
  );
}
