/** The result of a count of duplicate keys before an upgrade, as an operation keeps it. */
export interface KeyCount {
  rows: number;
  null_rows: number;
  keys: number;
  surplus_rows: number;
  listed_at: string;
  changed_meanwhile: number;
  sample: { rows: number; key: Record<string, string> }[];
}

/** The count in the result of a check; null if the server did not count. */
export function countOf(result: Record<string, unknown>): KeyCount | null {
  const uniqueness = result.uniqueness as (KeyCount & { counted: boolean }) | undefined;
  return uniqueness?.counted === true ? uniqueness : null;
}
