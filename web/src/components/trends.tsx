import { useMemo } from 'react';

import { chartsOf, RANGES, type Trend } from '../lib/trends';
import type { Saved } from '../lib/savings';
import { useUrlState } from '../lib/url-state';
import { Choice } from './choice';
import { Empty, Note, ProblemNote } from './notes';
import { Savings } from './savings';
import { TrendChart } from './trend-chart';
import styles from './trend-chart.module.css';

const DEFAULT = '7 d';

/** The chosen range of time, kept in the address. */
export function useRange(): [string, (range: string) => void] {
  const [get, set] = useUrlState();
  const chosen = get('range');
  const range = RANGES.some(({ value }) => value === chosen) ? (chosen ?? DEFAULT) : DEFAULT;
  return [range, (value) => set({ range: value === DEFAULT ? undefined : value })];
}

interface TrendsProps {
  trend: (Trend & { left_out: number; savings: Saved }) | undefined;
  error: unknown;
  /** Of one table, or of many. */
  isTable: boolean;
  range: string;
  setRange: (range: string) => void;
}

/** All charts of a table, namespace or catalog, over a range of time that somebody chooses. */
export function Trends({ trend, error, isTable, range, setRange }: TrendsProps) {
  const charts = useMemo(() => (trend === undefined ? undefined : chartsOf(trend, isTable)), [trend, isTable]);
  return (
    <div className="stack" style={{ gap: 12 }}>
      <div className="row row-wrap">
        <Choice label="range of time" value={range} set={setRange} options={RANGES} />
        <span className="dim">One sample in 10 minutes; hourly after a day, daily after a week, weekly after 13 weeks.</span>
      </div>
      {error !== null && error !== undefined && <ProblemNote error={error} what="cannot read the trends" />}
      {trend !== undefined && trend.left_out > 0 && (
        <Note title={`${trend.left_out} tables and namespaces are not added up`}>You may read too many single tables. Choose a database.</Note>
      )}
      {charts?.length === 0 && (
        <Empty title="No samples yet">The server samples each table within minutes of its first commit. Charts appear here by themselves.</Empty>
      )}
      {trend !== undefined && charts !== undefined && charts.length > 0 && <Savings savings={trend.savings} />}
      {charts !== undefined && charts.length > 0 && (
        <div className={styles.grid}>
          {charts.map((drawn) => (
            <TrendChart key={drawn.kind.title} drawn={drawn} />
          ))}
        </div>
      )}
    </div>
  );
}
