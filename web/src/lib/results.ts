/** Rows of results, whose values are text: how they are ordered, copied and drawn. */

export interface ResultColumn {
  name: string;
  type: string;
}

export type ResultRow = readonly (string | null)[];

const NUMBERS = /^(U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|DECIMAL|FLOAT|DOUBLE)/;
const WHOLE = /^U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)/;
const TIMES = /^(DATE|TIMESTAMP)/;

export const isNumber = (column: ResultColumn): boolean => NUMBERS.test(column.type) && !column.type.endsWith(']');
export const isTime = (column: ResultColumn): boolean => TIMES.test(column.type) && !column.type.endsWith(']');

function compareValues(column: ResultColumn, left: string, right: string): number {
  if (WHOLE.test(column.type) && isNumber(column)) {
    const [first, second] = [BigInt(left), BigInt(right)]; // a double would take neighbours among large ids for equal
    return first < second ? -1 : first > second ? 1 : 0;
  }
  if (isNumber(column)) return Number(left) - Number(right);
  return left < right ? -1 : left > right ? 1 : 0;
}

/** The rows by one column; nulls last, and equal ones as they came. */
export function sortRows(rows: readonly ResultRow[], columns: readonly ResultColumn[], by: number, descending: boolean): ResultRow[] {
  const column = columns[by];
  if (column === undefined) return [...rows];
  return [...rows].sort((left, right) => {
    const [first, second] = [left[by] ?? null, right[by] ?? null];
    if (first === null || second === null) return first === second ? 0 : first === null ? 1 : -1;
    const order = compareValues(column, first, second);
    return descending ? -order : order;
  });
}

/** The rows as a spreadsheet takes them from the clipboard. */
export function toClipboard(columns: readonly ResultColumn[], rows: readonly ResultRow[]): string {
  const clean = (value: string | null) => (value ?? '').replace(/[\t\r\n]+/g, ' ');
  return [columns.map(({ name }) => clean(name)), ...rows.map((row) => row.map(clean))].map((cells) => cells.join('\t')).join('\n');
}

export interface Chart {
  x: number;
  y: number;
  kind: 'bars' | 'line';
}

/** A first choice of what to draw; null where no column has numbers. */
export function suggestChart(columns: readonly ResultColumn[]): Chart | null {
  const y = columns.findLastIndex(isNumber);
  if (y < 0) return null;
  const time = columns.findIndex(isTime);
  if (time >= 0) return { x: time, y, kind: 'line' };
  const x = columns.findIndex((_, index) => index !== y);
  return { x: x < 0 ? y : x, y, kind: 'bars' };
}

export interface Point {
  label: string;
  value: number;
}

/** What a chart shows: rows with a number, at most so many. A line goes along its column, bars keep the rows' order. */
export function pointsOf(columns: readonly ResultColumn[], rows: readonly ResultRow[], chart: Chart, most: number): Point[] {
  const ordered = chart.kind === 'line' ? sortRows(rows, columns, chart.x, false) : rows;
  return ordered
    .map((row) => ({ label: row[chart.x] ?? 'null', value: row[chart.y] == null ? NaN : Number(row[chart.y]) }))
    .filter(({ value }) => Number.isFinite(value))
    .slice(0, most);
}

/** Round numbers that enclose all values and zero. */
export function axisOf(values: readonly number[]): { low: number; high: number; ticks: number[] } {
  const [least, greatest] = [Math.min(0, ...values), Math.max(0, ...values)];
  const span = greatest - least || 1;
  const rough = span / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? 10 * power;
  const low = Math.floor(least / step) * step;
  const high = Math.max(low + step, Math.ceil(greatest / step) * step);
  const ticks = Array.from({ length: Math.round((high - low) / step) + 1 }, (_, index) => Number((low + index * step).toPrecision(12)));
  return { low, high, ticks };
}

/** The words of a statement: names of tables that it may mention. */
export function wordsOf(statement: string): Set<string> {
  return new Set(statement.toLowerCase().match(/[\p{L}_][\p{L}\p{N}_$]*/gu) ?? []);
}
