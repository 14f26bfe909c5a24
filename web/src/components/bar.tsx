import { many, percent, remaining, span } from '../lib/format';
import styles from './components.module.css';

interface BarProps {
  done: number;
  total: number;
  label: string;
  thin?: boolean;
}

/** How far something is; without a total it only says that it moves. */
export function Bar({ done, total, label, thin = false }: BarProps) {
  const known = total > 0;
  const share = known ? percent(done, total) : 0;
  return (
    <div
      className={styles.bar}
      data-thin={thin}
      data-unknown={!known}
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={known ? Math.round(share) : undefined}
    >
      <div className={styles.barFill} style={{ width: known ? `${share}%` : '35%' }} />
    </div>
  );
}

/** How much of something is in use: a small bar and its figures. */
export function Load({ used, of, label, text }: { used: number; of: number; label: string; text?: string }) {
  return (
    <span className={styles.load}>
      <span className={styles.meter} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={of} aria-valuenow={used}>
        <span className={styles.meterFill} style={{ width: `${percent(used, of)}%` }} />
      </span>
      <span>{text ?? `${used} of ${of}`}</span>
    </span>
  );
}

/** "3,200 of 5,000 files · 410 files/s · 4 s left" */
export function paceText(done: number, total: number, unit: string, elapsed: number): string {
  const noun = unit === '' ? 'steps' : unit;
  const parts = [total > 0 ? `${done.toLocaleString('en-US')} of ${total.toLocaleString('en-US')} ${noun}` : many(done, noun, noun)];
  if (done > 0 && elapsed > 0.5) {
    const pace = done / elapsed;
    if (pace >= 0.1) parts.push(`${pace >= 10 ? Math.round(pace).toLocaleString('en-US') : pace.toFixed(1)} ${noun}/s`);
  }
  const left = remaining(done, total, elapsed);
  if (left !== null) parts.push(`${span(left)} left`);
  return parts.join(' · ');
}
