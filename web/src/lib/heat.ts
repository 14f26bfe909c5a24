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

/** 0 for nothing, else 1–4 on the root's scale: a few large partitions must not make all others look the same. */
export function warmth(value: number, largest: number): number {
  if (value <= 0 || largest <= 0) return 0;
  return Math.max(1, Math.ceil(Math.sqrt(value / largest) * 4));
}

/** The value part of a partition's name. */
export function valueText(part: string): string {
  return part.slice(part.indexOf('=') + 1);
}
