import { useInfiniteQuery, useQuery } from '@tanstack/react-query';

import { tableHistory, tableJobs } from '../../api/queries';
import { ProblemNote } from '../../components/notes';
import { Panel } from '../../components/panel';
import { many } from '../../lib/format';
import { useUrlState } from '../../lib/url-state';
import { CommitDetails } from './commit-details';
import { Lanes } from './lanes';
import styles from './timeline.module.css';

const LEGEND: [string, string][] = [
  ['append', 'append'],
  ['overwrite', 'overwrite or merge'],
  ['delete', 'delete'],
  ['alter', 'schema change'],
  ['other', 'other'],
];
const JOBS: [string, string][] = [
  ['succeeded', 'job'],
  ['failed', 'failed job'],
];

/** Commits of all stores, and jobs, on one time axis. */
export function Timeline({ catalog, table }: { catalog: string; table: string }) {
  const history = useQuery(tableHistory(catalog, table));
  const { data: found } = useInfiniteQuery(tableJobs(catalog, table));
  const [get, set] = useUrlState();
  const chosen = get('commit') === undefined ? undefined : Number(get('commit'));
  const events = history.data?.items;
  const jobs = found?.pages.flatMap((page) => page.items) ?? [];
  if (history.error && events === undefined) return <ProblemNote error={history.error} what="no history" />;
  if (events === undefined || events.length === 0) return null;
  const open = events.find((event) => event.id === chosen);
  const ran = jobs.filter((job) => job.leased_at !== null);
  return (
    <Panel title="Timeline" aside={<Legend withJobs={ran.length > 0} />}>
      <Lanes events={events} jobs={ran} chosen={chosen} choose={(id) => set({ commit: String(id) })} />
      {open ? (
        <CommitDetails catalog={catalog} event={open} />
      ) : (
        <div className={styles.hint}>
          {many(events.length, 'commit')}
          {ran.length > 0 && ` and ${many(ran.length, 'job')}`}. Select one to see its changes; arrow keys move to the next.
        </div>
      )}
    </Panel>
  );
}

function Legend({ withJobs }: { withJobs: boolean }) {
  return (
    <span className={styles.legend}>
      {LEGEND.map(([shape, label]) => (
        <span key={shape} className={styles.legendItem}>
          <i className={styles.shape} data-shape={shape} aria-hidden />
          {label}
        </span>
      ))}
      {withJobs &&
        JOBS.map(([status, label]) => (
          <span key={status} className={styles.legendItem}>
            <i className={styles.legendJob} data-status={status} aria-hidden />
            {label}
          </span>
        ))}
    </span>
  );
}
