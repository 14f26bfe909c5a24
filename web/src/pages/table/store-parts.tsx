import type { ReactNode } from 'react';

import styles from './stores.module.css';

/** One figure of a box, with its name below. */
export function Figure({ name, value }: { name: string; value: ReactNode }) {
  return (
    <div>
      <div className={styles.number}>{value}</div>
      <div className={styles.note}>{name}</div>
    </div>
  );
}

/** The arrow between two boxes: what moves rows along it, and how far it is. */
export function Flow({ above, below, live, back = false }: { above: ReactNode; below: ReactNode; live: boolean; back?: boolean }) {
  return (
    <div className={styles.flow} data-live={live}>
      <span>{above}</span>
      <svg viewBox="0 0 120 12" preserveAspectRatio="none" aria-hidden className={styles.arrow}>
        <path d={back ? 'M120 6H4M10 1 4 6l6 5' : 'M0 6h116M110 1l6 5-6 5'} vectorEffect="non-scaling-stroke" />
      </svg>
      <span>{below}</span>
    </div>
  );
}
