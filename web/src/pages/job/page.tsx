import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate, useParams } from 'react-router';

import { answered, api } from '../../api/client';
import { job as jobQuery } from '../../api/queries';
import { ACTIVE, type Job, type JobStatus } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { ConfirmDialog, useDo } from '../../components/confirm-dialog';
import { isLive, JobBar, TableLink } from '../../components/job-parts';
import { JobMark } from '../../components/status-icons';
import { Note, ProblemNote } from '../../components/notes';
import { Facts, Page, Panel } from '../../components/panel';
import { need, onTable } from '../../lib/access';
import { paths } from '../../lib/paths';
import { firn } from '../../lib/terminal';
import { Deleted } from './deleted-files';
import { attemptsOf, detailsOf, Outcome } from './details';
import { Log } from './log';
import { Stages } from './stages';

const FATES: Partial<Record<JobStatus, string>> = {
  failed: 'Uncommitted work is lost. The planner retries with growing pauses; or press Retry.',
  unknown: 'The optimizer fell silent during the commit. The server checks its commit record and settles the outcome; nothing is lost.',
  pending: 'The last attempt failed; the job waits for an optimizer.',
};

export function JobPage() {
  const { id = '' } = useParams();
  return <OneJob key={id} id={id} />;
}

/** One job: how it stands, why it was planned, what it did, its log. */
function OneJob({ id }: { id: string }) {
  const { data: job, error } = useQuery(jobQuery(id));
  if (job === undefined) return <Page title="Job">{error && <ProblemNote error={error} />}</Page>;
  return (
    <Page
      title={
        <>
          {job.kind} of <TableLink catalog={job.catalog} table={job.table} />
        </>
      }
      sub={<JobMark status={job.status} outcome={job.outcome} />}
      actions={<Actions job={job} />}
    >
      <Panel>
        <Stages job={job} />
        {isLive(job) && <JobBar job={job} thin={false} />}
      </Panel>
      {job.error !== null && (
        <Note tone={job.status === 'failed' ? 'bad' : 'warn'} title={job.error}>
          {FATES[job.status]}
        </Note>
      )}
      <Panel title="Details">
        <Facts columns facts={detailsOf(job)} />
      </Panel>
      {job.attempts.length > 0 && (
        <Panel title="Attempts">
          <Facts facts={attemptsOf(job)} />
        </Panel>
      )}
      <Outcome job={job} />
      <Deleted job={job} />
      <Log job={job} />
    </Page>
  );
}

function Actions({ job }: { job: Job }) {
  const navigate = useNavigate();
  const at = { params: { path: { job_id: job.id } } };
  const needs = need(onTable(job.catalog, job.table), 'maintain');
  const giveUp = () => answered(api.POST('/jobs/{job_id}/cancel', at));
  const cancel = useDo('cannot cancel', giveUp);
  const [asking, ask] = useState(false);
  const retry = useDo('cannot retry', async () => {
    const next = await answered(api.POST('/jobs/{job_id}/retry', at));
    await navigate(paths.job(next.id));
  });
  return (
    <>
      <ActionButton
        variant="default"
        needs={needs}
        loading={retry.isPending}
        disabledReason={job.allowed_actions.includes('retry') ? null : `Only a failed or canceled job can be retried; this one is ${job.status}.`}
        onClick={() => retry.mutate()}
      >
        Retry
      </ActionButton>
      <ActionButton
        variant="default"
        needs={needs}
        loading={cancel.isPending}
        disabledReason={job.allowed_actions.includes('cancel') ? null : whyNoCancel(job)}
        onClick={() => (isLive(job) ? ask(true) : cancel.mutate())}
      >
        Cancel
      </ActionButton>
      <ConfirmDialog title={`Cancel the ${job.kind} of ${job.table}`} opened={asking} close={() => ask(false)} yes="Cancel the job" danger act={giveUp} command={firn('job cancel', [job.id])}>
        An optimizer is running the job. Its uncommitted work is lost; the table does not change.
      </ConfirmDialog>
    </>
  );
}

function whyNoCancel(job: Job): string {
  return ACTIVE.includes(job.status) ? 'It has committed already: it cannot be canceled.' : `It has ended: ${job.status}.`;
}
