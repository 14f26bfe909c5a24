import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { hiveTable } from '../../api/hive-queries';
import { job as jobQuery } from '../../api/queries';
import type { HiveTableDetail } from '../../api/types';
import { When } from '../../components/figures';
import { isLive, JobBar } from '../../components/job-parts';
import { Words } from '../../components/notes';
import { Panel } from '../../components/panel';
import { paths } from '../../lib/paths';

type Asked = NonNullable<HiveTableDetail['publish_request']>;

const TITLES: Record<Asked['step'], string> = {
  waiting: 'Publish to Hive: waiting',
  merging: 'Publish to Hive: 1 of 2, merging pending changes',
  publishing: 'Publish to Hive: writing changed partitions',
  done: 'Published to Hive',
  failed: 'Not published to Hive',
};

const SHOWN_MS = 10 * 60 * 1000;
/** What has ended is news for so long; the Hive tab tells it later, too. */
const isNews = (row: Asked) => isOpen(row) || Date.now() - Date.parse(row.at) < SHOWN_MS;

export const isOpen = (row: Asked) => row.step !== 'done' && row.step !== 'failed';

/** The last publish that somebody has asked for: how far it is, whoever looks, and at the end what Hive has. */
export function PublishRequestPanel({ catalog, hive }: { catalog: string; hive: string }) {
  const { data } = useQuery(hiveTable(catalog, hive));
  const asked = data?.publish_request ?? null;
  if (asked === null || !isNews(asked)) return null;
  return (
    <Panel
      title={TITLES[asked.step]}
      aside={
        <span className="dim">
          requested <When at={asked.at} />
        </span>
      }
    >
      <div className="stack" role="status" aria-label="requested publish">
        {asked.job_id !== null && isOpen(asked) && <PublishRequestJob id={asked.job_id} />}
        <span className={asked.step === 'failed' ? 'accent' : ''}>
          <Words>{asked.message}</Words>
        </span>
        {isOpen(asked) && <span className="dim">Closing this page does not stop it: the server goes on{asked.step === 'merging' && ', and publishes after the merge by itself'}.</span>}
      </div>
    </Panel>
  );
}

function PublishRequestJob({ id }: { id: string }) {
  const { data } = useQuery(jobQuery(id));
  if (data === undefined) return null;
  return (
    <div className="row">
      {isLive(data) ? (
        <JobBar job={data} />
      ) : (
        <span className="dim">
          {data.status === 'pending' ? `the ${data.kind} job waits for an optimizer` : `the ${data.kind} job has ended; the next step starts soon`}
        </span>
      )}
      <Link to={paths.job(id)}>{data.kind} job</Link>
    </div>
  );
}
