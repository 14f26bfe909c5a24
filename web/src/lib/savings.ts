/** What jobs saved and cost in some time, in words. */
import { bytes, count, exact, many, span } from './format';

export interface Saved {
  files_removed: number;
  bytes_removed: number;
  bytes_freed: number;
  jobs: number;
  failed_jobs: number;
  job_seconds: number;
  scans: number;
  openings_saved: number;
  opening_ms: number;
  reader_seconds: number | null;
}

/** The estimated time of readers, in words; there is no estimate if no engine has reported scans. */
export function readerTime({ reader_seconds: seconds }: Saved): string {
  if (seconds === null) return 'cannot be estimated';
  if (seconds === 0) return 'none';
  return seconds < 1 ? 'less than a second' : `about ${span(seconds)}`;
}

/** How the time of readers is estimated, or why it is not. */
export function formulaOf(saved: Saved): string {
  if (saved.reader_seconds === null) return 'No engine has reported scans in this time.';
  return `${many(saved.scans, 'reported scan')} had ${exact(saved.openings_saved)} fewer files to open, at ${saved.opening_ms} ms each: scans × files that jobs removed in the 30 days before × ${saved.opening_ms} ms. It is less if scans read only parts of a table.`;
}

/** All of it in a line, for Home. */
export const savingsLine = (saved: Saved): string =>
  `Jobs removed ${many(saved.files_removed, 'file')} and ${bytes(saved.bytes_removed)} from what scans read, and took ${span(saved.job_seconds)}. Reader time saved: ${readerTime(saved)}.`;

/** Names and values for a list. */
export const savingsFacts = (saved: Saved): [string, string][] => [
  ['Files removed', count(saved.files_removed)],
  ['Size removed', bytes(saved.bytes_removed)],
  ['Storage freed', bytes(saved.bytes_freed)],
  ['Reader time saved', readerTime(saved)],
  ['Job time', `${span(saved.job_seconds)}, ${many(saved.jobs, 'job')}${saved.failed_jobs > 0 ? `, ${count(saved.failed_jobs)} failed` : ''}`],
];
