import { useQuery } from '@tanstack/react-query';
import { useLayoutEffect, useRef } from 'react';

import { jobLog } from '../../api/queries';
import { ACTIVE, type Job } from '../../api/types';
import { ProblemNote } from '../../components/notes';
import { Panel } from '../../components/panel';
import { clock, many, moment } from '../../lib/format';
import styles from './job.module.css';

const NEAR_END = 30;

/** What its optimizers wrote; it follows the end while the reader is there. */
export function Log({ job }: { job: Job }) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const { data, error } = useQuery(jobLog(job.id, ACTIVE.includes(job.status)));
  const lines = data?.length ?? 0;
  useLayoutEffect(() => {
    if (follows.current) box.current?.scrollTo({ top: box.current.scrollHeight });
  }, [lines]);
  const look = () => {
    if (box.current === null) return;
    follows.current = box.current.scrollHeight - box.current.scrollTop - box.current.clientHeight < NEAR_END;
  };
  return (
    <Panel title="Log" aside={data && <span className="dim">{many(lines, 'line')}</span>}>
      {error && <ProblemNote error={error} />}
      {lines === 0 && data !== undefined && (
        <span className="dim">
          {job.leased_at === null ? 'No optimizer has taken the job yet. Its log will appear here.' : 'The optimizer wrote no log.'}
        </span>
      )}
      {data !== undefined && lines > 0 && (
        <div ref={box} className={styles.log} role="log" aria-label="job log" tabIndex={0} onScroll={look}>
          {data.map((line, index) => (
            <div key={index} className={styles.line}>
              <time dateTime={line.at} title={moment(line.at)}>{clock(line.at)}</time>
              <span>{line.line}</span>
            </div>
          ))}
        </div>
      )}
    </Panel>
  );
}
