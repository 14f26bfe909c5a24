import type { ReactNode } from 'react';
import { Link } from 'react-router';

import type { Job } from '../../api/types';
import { Bytes, Count, Span, When } from '../../components/figures';
import { PredictionTable } from '../../components/prediction';
import { JobTime } from '../../components/job-parts';
import { Facts, Panel } from '../../components/panel';
import { words } from '../../lib/format';
import { compared, gainedBy } from '../../lib/prediction';
import { plain } from '../../lib/result';
import { paths } from '../../lib/paths';

/** What is known of a job, whatever its kind. */
export function detailsOf(job: Job) {
  const { seconds } = job.predicted;
  return [
    { name: 'why', value: job.reason },
    { name: 'planned', value: <When at={job.created_at} /> },
    ...(job.leased_at === null && job.ended_at === null ? [{ name: 'should begin', value: <When at={job.deadline} /> }] : []),
    { name: 'began', value: <When at={job.leased_at} /> },
    { name: 'took', value: <JobTime job={job} />, ...(typeof seconds === 'number' ? { note: <>expected <Span seconds={seconds} /></> } : {}) },
    { name: 'attempt', value: <Count value={job.attempt} /> },
    { name: 'optimizer', value: <span className="mono">{job.owner ?? '–'}</span> },
    {
      name: 'group and priority',
      value: (
        <>
          <Link className="mono" to={`${paths.jobs()}?group=${encodeURIComponent(job.group)}`}>
            {job.group}
          </Link>
          , {job.priority}
          {job.is_long && ', a long job'}
        </>
      ),
    },
    { name: 'committed snapshot', value: <Snapshot job={job} /> },
    { name: 'job', value: <span className="mono">{job.id}</span> },
    ...(job.lease_until === null ? [] : [{ name: 'lease ends', value: <When at={job.lease_until} /> }]),
  ];
}

/** Each time that an optimizer had the job, and how that ended. */
export function attemptsOf(job: Job) {
  return job.attempts.map((item) => ({
    name: `attempt ${item.number}`,
    value: (
      <>
        <span className="mono">{item.optimizer}</span>, began <When at={item.leased_at} />
        {item.ended_at !== null && (
          <>
            , ended <When at={item.ended_at} />: {item.outcome}
          </>
        )}
      </>
    ),
  }));
}

function Snapshot({ job }: { job: Job }) {
  const id = job.committed_snapshot_id;
  if (id === null) return <span className="dim">–</span>;
  return (
    <Link className="mono" to={`${paths.table(job.catalog, job.table, 'snapshots')}&snapshot=${id}`}>
      {id}
    </Link>
  );
}

/** What went into a job, what it was expected to gain, and what came out of it. */
export function Outcome({ job }: { job: Job }) {
  const gained = gainedBy(job.result);
  const inputs = factsOf(job.params).filter(({ name }) => name !== 'state');
  const outputs = factsOf(job.result).filter(({ name }) => name !== 'gained');
  const hasGain = compared(job.predicted, gained).length > 0;
  return (
    <>
      {hasGain && (
        <Panel title="Before, predicted, actual">
          <PredictionTable predicted={job.predicted} gained={gained} />
        </Panel>
      )}
      {inputs.length > 0 && (
        <Panel title="Parameters">
          <Facts columns facts={inputs} />
        </Panel>
      )}
      {outputs.length > 0 && (
        <Panel title="Result">
          <Facts columns facts={outputs} />
        </Panel>
      )}
    </>
  );
}

function factsOf(values: Record<string, unknown>): { name: string; value: ReactNode }[] {
  return Object.entries(values).map(([key, value]) => ({ name: words(key), value: shown(key, value) }));
}

/** Values of any shape as people read them. */
function shown(key: string, value: unknown): ReactNode {
  if (typeof value === 'number') {
    if (key.includes('bytes')) return <Bytes value={value} />;
    return Number.isInteger(value) ? <Count value={value} /> : value.toFixed(2);
  }
  if (Array.isArray(value)) return value.length === 0 ? <span className="dim">none</span> : plain(key, value);
  return value === null || value === '' ? <span className="dim">–</span> : plain(key, value);
}
