import { Link } from 'react-router';

import type { CommitEvent } from '../../api/types';
import { AddedRemoved, Bytes, When } from '../../components/figures';
import { engineText } from '../../lib/format';
import { paths } from '../../lib/paths';
import { ChangeList } from './changes';
import { laneOf } from './lanes';
import { SummaryFacts } from './snapshot-details';
import styles from './timeline.module.css';

/** Who committed what, and where to go on from there. */
export function CommitDetails({ catalog, event }: { catalog: string; event: CommitEvent }) {
  const table = event.table.replace(/\.(base|change)$/, '');
  const first = [
    { name: 'committed', value: <When at={event.committed_at} /> },
    { name: 'did', value: `${event.operation} on ${laneOf(event)}` },
    { name: 'by', value: engineText(event.engine ?? event.writer_id ?? 'unknown') },
    ...(event.writer_id === null ? [] : [{ name: 'writer and batch', value: <span className="mono">{`${event.writer_id} ${event.batch_id ?? ''}`}</span> }]),
    { name: 'rows', value: <Change added={event.added_rows} removed={event.removed_rows} /> },
    { name: 'files', value: <Change added={event.added_files} removed={event.removed_files} /> },
    { name: 'bytes added', value: <Bytes value={event.added_bytes} /> },
    ...(event.snapshot_id === null
      ? []
      : [
          {
            name: 'snapshot',
            value: (
              <Link className="mono" to={`${paths.table(catalog, table, 'snapshots')}&snapshot=${event.snapshot_id}`} preventScrollReset>
                {event.snapshot_id}
              </Link>
            ),
          },
        ]),
  ];
  const own = Object.fromEntries(Object.entries(event.summary).filter(([key]) => key.startsWith('firn.')));
  return (
    <div className={styles.commit}>
      <SummaryFacts first={first} summary={own} />
      <div className={styles.changes}>
        <ChangeList changes={event.changes} />
        <span className="row" style={{ gap: 16 }}>
          <Link className="inline" to={`${paths.table(catalog, table, 'history')}&entry=${event.id}`} preventScrollReset>
            Compare, tag or roll back
          </Link>
          {event.job_id !== null && (
            <Link className="inline" to={paths.job(event.job_id)}>
              View the job
            </Link>
          )}
        </span>
      </div>
    </div>
  );
}

function Change({ added, removed }: { added: number; removed: number }) {
  return <AddedRemoved added={added} removed={removed} />;
}
