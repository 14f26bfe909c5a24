import { percent } from '../lib/format';
import styles from './components.module.css';

export type Tone = 'ok' | 'warn' | 'bad';

/** Half of the points gone wants a look, most of them gone wants one soon. */
export function toneOf(score: number): Tone {
  if (score < 25) return 'bad';
  return score < 50 ? 'warn' : 'ok';
}

/** A score from 0 to 100 as a small bar and its number. */
export function HealthBar({ score, label = 'health' }: { score: number | null | undefined; label?: string }) {
  if (score === null || score === undefined) return <span className="dim">–</span>;
  return (
    <span className={styles.load}>
      <span className={styles.meter} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={score}>
        <span className={styles.meterFill} data-tone={toneOf(score)} style={{ width: `${percent(score, 100)}%` }} />
      </span>
      <span className={styles.score}>{score}</span>
    </span>
  );
}
