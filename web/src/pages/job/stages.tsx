import { When } from '../../components/figures';
import type { Job } from '../../api/types';
import { stagesOf } from '../../lib/stages';
import styles from './job.module.css';

const SAYS = { done: 'done', now: 'now', ahead: 'not reached', bad: 'ended here' };

/** The way of a job as steps. */
export function Stages({ job }: { job: Job }) {
  return (
    <ol className={styles.stages} aria-label="stages">
      {stagesOf(job).map(({ name, at, state }) => (
        <li key={name} className={styles.stage} data-state={state} data-status={job.status} aria-current={state === 'now' ? 'step' : undefined}>
          <i className={styles.dot} aria-hidden />
          <span>{name}</span>
          <span className="hidden">, {SAYS[state]}</span>
          {at !== null && (
            <span className="dim">
              <When at={at} />
            </span>
          )}
        </li>
      ))}
    </ol>
  );
}
