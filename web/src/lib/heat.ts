/** A heat map of partitions: which rows and columns it has, and how warm a cell is. */

export interface Cell<T> {
  row: string;
  column: string;
  value: T;
}

/** `month=1/day=5` as row `month=1` and column `day=5`; a table with one partition field is one row that wraps. */
export function cellOf<T>(partition: string, value: T): Cell<T> {
  const slash = partition.lastIndexOf('/');
  if (slash < 0) return { row: '', column: partition === '' ? 'whole table' : partition, value };
  return { row: partition.slice(0, slash), column: partition.slice(slash + 1), value };
}

/** Names in the order of people: 2 before 10. */
export function inOrder(names: Iterable<string>): string[] {
  return [...new Set(names)].sort((item, other) => item.localeCompare(other, 'en', { numeric: true }));
}

/** The three values between the quarters of what is more than nothing; empty if nothing is. */
export function quartersOf(values: number[]): number[] {
  const sorted = values.filter((value) => value > 0).sort((item, other) => item - other);
  if (sorted.length === 0) return [];
  return [1, 2, 3].map((quarter) => sorted[Math.ceil((sorted.length * quarter) / 4) - 1] ?? 0);
}

/** 0 for nothing, else the quarter, 1 to 4, that a value lies in: neither few large nor equal partitions hide the rest. */
export function warmth(value: number, quarters: number[]): number {
  return value <= 0 ? 0 : 1 + quarters.filter((border) => value > border).length;
}

/** The value part of a partition's name. */
export function valueText(part: string): string {
  return part.slice(part.indexOf('=') + 1);
}
