import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams } from 'react-router';

import { answered, api } from '../api/client';
import { job as jobQuery, jobLog } from '../api/queries';
import { ACTIVE, type Job } from '../api/types';
import { Act } from '../components/act';
import { useDo } from '../components/ask';
import { Count, When } from '../components/figures';
import { isLive, JobBar, JobTime, TableLink } from '../components/job-parts';
import { JobMark } from '../components/marks';
import { Note, ProblemNote } from '../components/notes';
import { Facts, Page, Panel } from '../components/panel';
import { need, onTable } from '../lib/access';
import { clock, words } from '../lib/format';
import { paths } from '../lib/paths';
import styles from './job.module.css';

/** One job: how it stands, why it was planned, what it did, its log. */
export function JobPage() {
  const { id = '' } = useParams();
  const { data: job, error } = useQuery(jobQuery(id));
  if (job === undefined) return <Page title="Job">{error && <ProblemNote error={error} />}</Page>;
  return (
    <Page
      title={
        <>
          {job.kind} of <TableLink catalog={job.catalog} table={job.table} />
        </>
      }
      sub={<JobMark status={job.status} />}
      actions={<Actions job={job} />}
    >
      {isLive(job) && (
        <Panel title="Progress">
          <JobBar job={job} thin={false} />
        </Panel>
      )}
      {job.error !== null && (
        <Note tone={job.status === 'failed' ? 'bad' : 'warn'} title={job.error}>
          {job.status === 'failed' ? 'Nothing of it was committed. The planner tries again with growing pauses, or press Retry.' : undefined}
        </Note>
      )}
      <Panel title="What is known">
        <Facts columns facts={factsOf(job)} />
      </Panel>
      {Object.keys(job.result).length > 0 && (
        <Panel title="What it did">
          <Facts columns facts={Object.entries(job.result).map(([key, value]) => ({ name: words(key), value: shown(value) }))} />
        </Panel>
      )}
      <Log job={job} />
    </Page>
  );
}

function factsOf(job: Job) {
  return [
    { name: 'why', value: job.reason },
    { name: 'planned', value: <When at={job.created_at} /> },
    { name: 'started', value: <When at={job.leased_at} /> },
    { name: 'took', value: <JobTime job={job} /> },
    { name: 'attempt', value: <Count value={job.attempt} /> },
    { name: 'optimizer', value: <span className="mono">{job.owner ?? '–'}</span> },
    { name: 'group', value: <span className="mono">{job.group}</span> },
    { name: 'committed snapshot', value: <span className="mono">{job.committed_snapshot_id ?? '–'}</span> },
    { name: 'job', value: <span className="mono">{job.id}</span> },
    ...(job.lease_until === null ? [] : [{ name: 'lease ends', value: <When at={job.lease_until} /> }]),
  ];
}

/** Values of any shape as people read them. */
function shown(value: unknown): React.ReactNode {
  if (typeof value === 'number') return Number.isInteger(value) ? <Count value={value} /> : value.toFixed(2);
  if (Array.isArray(value)) return value.map(String).join(', ');
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value)
      .map(([key, one]) => `${words(key)} ${String(one)}`)
      .join(', ');
  }
  return String(value);
}

function Actions({ job }: { job: Job }) {
  const navigate = useNavigate();
  const at = { params: { path: { job_id: job.id } } };
  const needs = need(onTable(job.catalog, job.table), 'maintain');
  const cancel = useDo('cannot cancel', () => answered(api.POST('/jobs/{job_id}/cancel', at)));
  const retry = useDo('cannot retry', async () => {
    const next = await answered(api.POST('/jobs/{job_id}/retry', at));
    await navigate(paths.job(next.id));
  });
  return (
    <>
      <Act
        variant="default"
        needs={needs}
        loading={retry.isPending}
        disabledReason={job.can.includes('retry') ? null : `Only a failed or canceled job can be tried again; this one is ${job.status}.`}
        onClick={() => retry.mutate()}
      >
        Retry
      </Act>
      <Act
        variant="default"
        needs={needs}
        loading={cancel.isPending}
        disabledReason={job.can.includes('cancel') ? null : whyNoCancel(job)}
        onClick={() => cancel.mutate()}
      >
        Cancel
      </Act>
    </>
  );
}

function whyNoCancel(job: Job): string {
  return ACTIVE.includes(job.status) ? 'Its commit is in the table already: it can no longer be taken back.' : `It has ended: ${job.status}.`;
}

function Log({ job }: { job: Job }) {
  const { data, error } = useQuery(jobLog(job.id, ACTIVE.includes(job.status)));
  return (
    <Panel title="Log" aside={data && <span className="dim">{data.length} lines</span>}>
      {error && <ProblemNote error={error} />}
      {data?.length === 0 && (
        <span className="dim">
          {job.leased_at === null ? 'No optimizer has taken it yet; it writes here as soon as one does.' : 'Its optimizer has written nothing.'}
        </span>
      )}
      {data !== undefined && data.length > 0 && (
        <div className={styles.log} role="log" aria-label="job log" tabIndex={0}>
          {data.map((line, index) => (
            <div key={index} className={styles.line}>
              <time dateTime={line.at}>{clock(line.at)}</time>
              <span>{line.line}</span>
            </div>
          ))}
        </div>
      )}
    </Panel>
  );
}
