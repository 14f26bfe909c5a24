import { Link } from 'react-router';

import type { Table } from '../../api/types';
import { When } from '../../components/figures';
import { JobBar } from '../../components/job-parts';
import { JobMark } from '../../components/status-icons';
import { gainText } from '../../lib/prediction';
import { paths } from '../../lib/paths';
import styles from '../table.module.css';

/** The one sentence: what runs, what is due and what it gains, or why nothing is. */
export function NextJob({ table }: { table: Table }) {
  const { next, active_job: job } = table;
  if (job !== null) {
    return (
      <div className={styles.next}>
        <JobMark status={job.status} />
        <span className="grow">
          <Link className="inline" to={paths.job(job.id)}>
            {job.kind}
          </Link>
          : {job.reason}
          <Gain figures={job.predicted} />
        </span>
        {job.status === 'pending' ? <span className="dim">waits for an optimizer</span> : <JobBar job={job} />}
      </div>
    );
  }
  return (
    <div className={styles.next}>
      <span>
        <b>{next.due ? 'Next job:' : 'No job is due:'}</b> {next.due ? `${next.kind ?? 'a job'} is due now, ${next.reason}` : next.reason}
        {next.next_at !== null && (
          <>
            {' '}
            – next check <When at={next.next_at} />
          </>
        )}
        {next.predicted !== null && <Gain figures={{ ...next.predicted }} />}
      </span>
    </div>
  );
}

function Gain({ figures }: { figures: Readonly<Record<string, unknown>> }) {
  const text = gainText(figures);
  return text === '' ? null : <span className="dim"> – expected: {text}</span>;
}
