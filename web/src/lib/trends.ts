/** What trends say: which charts there are, what their numbers mean, and what to tell of each in words. */
import { bytes, count, span } from './format';

export interface TrendSeries {
  measure: string;
  values: (number | null)[];
}

export interface Trend {
  times: string[];
  series: TrendSeries[];
}

/** A chart of one or two measures; `bars` for what happened in each time, a line for what was there. */
export interface ChartKind {
  title: string;
  measures: { name: string; label: string }[];
  bars?: boolean;
  format: (value: number) => string;
  /** The highest value of the axis where it is always the same. */
  highest?: number;
  help: string;
}

const one = (name: string, label: string) => [{ name, label }];

export const CHARTS: ChartKind[] = [
  { title: 'Rows', measures: one('rows', 'rows'), format: count, help: 'in the base store for a keyed table' },
  { title: 'Size', measures: one('bytes', 'size'), format: bytes, help: 'of the live data files' },
  {
    title: 'Files',
    measures: [
      { name: 'files', label: 'files' },
      { name: 'small_files', label: 'small' },
    ],
    format: count,
    help: 'live data files, and how many of them are small',
  },
  { title: 'Health', measures: one('health', 'health'), format: (value) => count(Math.round(value)), highest: 100, help: '100: nothing to do; of several tables the average' },
  { title: 'Pending changes', measures: one('pending_rows', 'pending'), format: count, help: 'rows that are not merged yet' },
  { title: 'Publish lag', measures: one('publish_lag_seconds', 'lag'), format: span, help: 'age of the oldest commit that Hive lacks' },
  { title: 'Query planning', measures: one('planning_ms', 'planning'), format: (value) => span(value / 1000), help: 'average planning time that engines reported of their scans' },
  { title: 'Scans', measures: one('scans', 'scans'), bars: true, format: count, help: 'that engines reported' },
  {
    title: 'Jobs',
    measures: [
      { name: 'jobs', label: 'ended' },
      { name: 'failed_jobs', label: 'failed' },
    ],
    bars: true,
    format: count,
    help: 'jobs that ended, and how many of them failed',
  },
  { title: 'Job time', measures: one('job_seconds', 'job time'), bars: true, format: span, help: 'from lease to end, added up' },
  { title: 'Files removed by jobs', measures: one('files_removed', 'files'), bars: true, format: count, help: 'that a full scan no longer reads' },
  { title: 'Storage freed by jobs', measures: one('bytes_freed', 'freed'), bars: true, format: bytes, help: 'deleted by expiry of snapshots and removal of orphans' },
  { title: 'Tables', measures: one('tables', 'tables'), format: count, help: 'tables that the planner has assessed' },
];

export const RANGES = [
  { value: '24 h', label: '24 h' },
  { value: '7 d', label: '7 days' },
  { value: '30 d', label: '30 days' },
  { value: '90 d', label: '90 days' },
  { value: '365 d', label: '1 year' },
  { value: '728 d', label: '2 years' },
];

export interface Drawn {
  kind: ChartKind;
  times: number[];
  lines: { label: string; values: (number | null)[] }[];
}

/** The charts that have something to draw. Those without any value but zero are left out, except rows, size and files. */
export function chartsOf(trend: Trend, isTable: boolean): Drawn[] {
  const times = trend.times.map((time) => Date.parse(time) / 1000);
  const byName = new Map(trend.series.map((series) => [series.measure, series.values]));
  return CHARTS.filter((kind) => !(isTable && kind.title === 'Tables')).flatMap((kind) => {
    const lines = kind.measures.map(({ name, label }) => ({ label, values: byName.get(name) ?? [] }));
    const always = ['Rows', 'Size', 'Files', 'Health'].includes(kind.title) && lines[0]?.values.some((value) => value !== null);
    return always || lines.some(({ values }) => values.some((value) => value !== null && value !== 0)) ? [{ kind, times, lines }] : [];
  });
}

/** The first and last known value of a line; for bars their sum. */
export function summarize(drawn: Drawn): { first: number | null; last: number | null; sum: number } {
  const known = (drawn.lines[0]?.values ?? []).filter((value) => value !== null);
  return { first: known[0] ?? null, last: known.at(-1) ?? null, sum: known.reduce((sum, value) => sum + value, 0) };
}

/** The large figure of a chart, and what it means. */
export function figureOf(drawn: Drawn): { value: string; note: string } {
  const { first, last, sum } = summarize(drawn);
  if (drawn.kind.bars === true) return { value: drawn.kind.format(sum), note: 'in this time' };
  if (first === null || last === null) return { value: '–', note: '' };
  return { value: drawn.kind.format(last), note: changeText(first, last) };
}

/** How a value has changed: "+12%", "unchanged", "from 0". */
export function changeText(first: number, last: number): string {
  if (first === last) return 'unchanged';
  if (first === 0) return 'from 0';
  const percent = ((last - first) / Math.abs(first)) * 100;
  const digits = Math.abs(percent) < 10 ? 1 : 0;
  return `${percent > 0 ? '+' : '−'}${Math.abs(percent).toFixed(digits)}%`;
}

/** All of a chart in a sentence, for who cannot see it. */
export function describeChart(drawn: Drawn): string {
  const { first, last, sum } = summarize(drawn);
  const { title, format, bars } = drawn.kind;
  if (bars === true) return `${title}: ${format(sum)} in this time`;
  if (first === null || last === null) return `${title}: no values`;
  const values = (drawn.lines[0]?.values ?? []).filter((value) => value !== null);
  return `${title}: from ${format(first)} to ${format(last)}, lowest ${format(Math.min(...values))}, highest ${format(Math.max(...values))}`;
}

/** The range of an axis: from zero, unless the values lie close together far from it. */
export function axisRange(low: number | null, high: number | null, highest?: number): [number, number] {
  if (highest !== undefined) return [0, highest];
  if (low === null || high === null) return [0, 1];
  if (low > 0.8 * high && low !== high) {
    const pad = (high - low) * 0.15;
    return [low - pad, high + pad];
  }
  return [Math.min(0, low), high === 0 ? 1 : high * 1.12];
}

const DAY_SECONDS = 86_400;

/** The text of a mark on the axis of time: days for distances of days, else the time, and the date at midnight. */
export function timeTick(at: number, distance: number): string {
  const time = new Date(at * 1000);
  const date = time.toLocaleDateString('en-GB', distance > 300 * DAY_SECONDS ? { year: 'numeric' } : distance >= 28 * DAY_SECONDS ? { month: 'short', year: 'numeric' } : { day: 'numeric', month: 'short' });
  const isMidnight = time.getHours() === 0 && time.getMinutes() === 0;
  return distance >= DAY_SECONDS || isMidnight ? date : time.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
}
