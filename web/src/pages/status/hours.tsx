import { Tooltip } from '@mantine/core';

import type { Status } from '../../api/types';
import { barsOf, ended } from '../../lib/hours';
import { count } from '../../lib/format';
import styles from './status.module.css';

/** The last day's jobs, hour by hour: a gap or a red top is seen before anything is read. */
export function Hours({ hours }: { hours: Status['hours'] }) {
  const bars = barsOf(hours);
  if (bars.length === 0) return null;
  return (
    <figure className={styles.hours} aria-label="jobs that ended, by hour">
      <figcaption className={styles.most}>
        <span>ended jobs per hour, last day</span>
        <span>max {count(Math.max(...hours.map(ended)))}</span>
      </figcaption>
      <div className={styles.bars}>
        {bars.map((bar) => (
          <Tooltip key={bar.key} label={bar.text} events={{ hover: true, focus: false, touch: true }}>
            <div className={styles.hour} role="img" aria-label={bar.text}>
              <span className={styles.failed} style={{ height: `${bar.failed}%` }} />
              <span className={styles.canceled} style={{ height: `${bar.canceled}%` }} />
              <span className={styles.succeeded} style={{ height: `${bar.succeeded}%` }} />
              {bar.tick !== null && <span className={styles.tick}>{bar.tick}</span>}
            </div>
          </Tooltip>
        ))}
      </div>
    </figure>
  );
}
