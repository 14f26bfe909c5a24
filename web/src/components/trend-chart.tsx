import { lazy, Suspense, useState } from 'react';

import { describeChart, figureOf, type Drawn } from '../lib/trends';
import styles from './trend-chart.module.css';

/** Loaded with the first chart, so the console's first page does not wait for it. */
const TrendPlot = lazy(() => import('./trend-plot'));

/** One chart: its name, the value now or under the cursor, and the drawing. The whole is one image with a sentence. */
export function TrendChart({ drawn }: { drawn: Drawn }) {
  const [at, setAt] = useState<number | null>(null);
  const figure = figureOf(drawn);
  const time = at === null ? undefined : drawn.times[at];
  const pointed = at === null || time === undefined ? null : drawn.lines.map(({ label, values }) => ({ label, value: values[at] ?? null }));
  return (
    <figure className={styles.chart} role="img" aria-label={describeChart(drawn)}>
      <div className={styles.head} aria-hidden>
        <span className={styles.title} title={drawn.kind.help}>{drawn.kind.title}</span>
        {pointed === null || time === undefined ? (
          <>
            <span className={styles.value}>{figure.value}</span>
            <span className="dim">{figure.note}</span>
          </>
        ) : (
          <>
            {pointed.map(({ label, value }) => (
              <span key={label} className={styles.value}>
                {value === null ? '–' : drawn.kind.format(value)}
                {pointed.length > 1 && <span className={styles.unit}> {label}</span>}
              </span>
            ))}
            <span className="dim">{new Date(time * 1000).toLocaleString('en-GB', { day: '2-digit', month: 'short', hour: '2-digit', minute: '2-digit' })}</span>
          </>
        )}
        {drawn.lines.length > 1 && pointed === null && <Legend drawn={drawn} />}
      </div>
      <Suspense fallback={<div style={{ height: 130 }} />}>
        <TrendPlot drawn={drawn} point={setAt} />
      </Suspense>
    </figure>
  );
}

function Legend({ drawn }: { drawn: Drawn }) {
  return (
    <span className={styles.legend}>
      {drawn.lines.map(({ label }, index) => (
        <span key={label} className={styles.key} data-line={index === 0 ? 'first' : drawn.kind.title === 'Jobs' ? 'bad' : 'second'}>
          {label}
        </span>
      ))}
    </span>
  );
}
