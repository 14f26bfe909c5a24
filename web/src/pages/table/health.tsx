import { useQuery } from '@tanstack/react-query';

import { tableHealth } from '../../api/queries';
import type { Table, TableHealth } from '../../api/types';
import { toneOf } from '../../components/health';
import { ProblemNote } from '../../components/notes';
import { percent, words } from '../../lib/format';
import { fullName } from '../../lib/paths';
import bars from '../../components/components.module.css';
import styles from './health.module.css';

type Loss = TableHealth['parts'][number];

const healthOf = (table: Table) => tableHealth(table.catalog, fullName(table), table.last_commit_at);

/** The score of a table, from 0 to 100. */
export function HealthScore({ table }: { table: Table }) {
  const { data } = useQuery(healthOf(table));
  if (data === undefined) return null;
  const tone = toneOf(data.score);
  return (
    <div className={styles.score} title="100: healthy">
      <span className={styles.label}>health</span>
      <span className={`${styles.number} ${tone === 'ok' ? '' : tone}`}>{data.score}</span>
      <span className="dim"> of 100</span>
    </div>
  );
}

/** What takes points from the score. */
export function HealthParts({ table }: { table: Table }) {
  const { data, error } = useQuery(healthOf(table));
  if (data === undefined) return error ? <ProblemNote error={error} what="cannot load the health" /> : null;
  return (
    <ul className={styles.parts} aria-label="health">
      {data.parts.map((loss) => (
        <Part key={loss.part} loss={loss} score={data.score} />
      ))}
    </ul>
  );
}

/** One part with its points; points lost are not shown beside a score that rounds to 100. */
function Part({ loss, score }: { loss: Loss; score: number }) {
  const left = loss.max_points - loss.points_lost;
  const share = percent(left, loss.max_points);
  const lost = score < 100 ? Number(loss.points_lost.toFixed(1)) : 0;
  const points = `${Number(left.toFixed(1))} of ${loss.max_points} points`;
  return (
    <li className={styles.part} title={`${points}: ${loss.detail}`}>
      <div className="row spread">
        <span>{words(loss.part)}</span>
        {lost > 0 && <span className={styles.lost}>−{lost}</span>}
      </div>
      <div className={`${bars.meter} ${styles.meter}`} role="meter" aria-label={`${words(loss.part)}: ${points}`} aria-valuemin={0} aria-valuemax={loss.max_points} aria-valuenow={left}>
        <div className={bars.meterFill} data-tone={toneOf(share)} style={{ width: `${share}%` }} />
      </div>
      <div className={styles.figure}>{loss.detail}</div>
    </li>
  );
}
