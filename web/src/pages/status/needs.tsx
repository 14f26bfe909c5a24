import { Button } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { jobs } from '../../api/queries';
import type { Job, Status } from '../../api/types';
import { When } from '../../components/figures';
import { Note } from '../../components/notes';
import { many, span } from '../../lib/format';
import { paths } from '../../lib/paths';
import { failing, stuck } from '../../lib/queue';

/** What does not come right by itself: a group with waiting jobs has no optimizer, a job has an unknown outcome, a job kind keeps failing. */
export function NeedsYou({ work }: { work: Status }) {
  const { data, hasNextPage } = useInfiniteQuery(jobs({ status: ['unknown'] }, 5));
  const unknown = data?.pages.flatMap((page) => page.items) ?? [];
  const idle = stuck(work.groups);
  const kinds = failing(work.last_day.by_kind);
  if (idle.length + unknown.length + kinds.length === 0) {
    return <Note title="All clear">Groups with waiting jobs and no optimizer, jobs with unknown outcome, and job kinds that keep failing appear here.</Note>;
  }
  return (
    <section className="stack" style={{ gap: 8 }} aria-label="what needs you">
      {idle.map(({ name, waiting, oldest_seconds: oldest }) => (
        <Note key={name} tone="bad" title={`Group ${name}: ${many(waiting, 'job')} and no optimizer`} action={<Open to={paths.optimizers()} label="Optimizers" />}>
          {oldest !== null && `The oldest waits for ${span(oldest)}. `}
          Start one with <span className="mono">firn optimizer{name === 'default' ? '' : ` --group ${name}`}</span>.
        </Note>
      ))}
      {unknown.map((job) => (
        <Unknown key={job.id} job={job} />
      ))}
      {hasNextPage && <Note tone="warn" title="More jobs have an unknown outcome" action={<Open to={`${paths.jobs()}?show=failed`} label="View" />} />}
      {kinds.map(({ kind, failed, succeeded }) => (
        <Note key={kind} tone="warn" title={`${kind} keeps failing`} action={<Open to={`${paths.jobs()}?show=failed&kind=${kind}`} label="View" />}>
          {failed} failed and {succeeded} succeeded within a day. The planner waits longer after each failure of a table.
        </Note>
      ))}
    </section>
  );
}

function Unknown({ job }: { job: Job }) {
  return (
    <Note
      tone="warn"
      title={
        <>
          {job.kind} of <span className="mono">{job.table}</span> has an unknown outcome, since <When at={job.ended_at ?? job.created_at} />
        </>
      }
      action={<Open to={paths.job(job.id)} label="View" />}
    >
      {job.error ?? 'The server checks its commit record and settles the outcome.'}
    </Note>
  );
}

function Open({ to, label }: { to: string; label: string }) {
  return (
    <Button component={Link} to={to} variant="default">
      {label}
    </Button>
  );
}
