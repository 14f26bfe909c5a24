/** Numbers, sizes and times as people say them. Nothing here knows React. */

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const oneDigit = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MONTH = 30 * DAY;
const YEAR = 365 * DAY;

/** 336,776; from ten million on 12.4 M, 3 B: more digits are noise in a list. */
export function count(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return `${oneDigit.format(value / 1e9)} B`;
  if (size >= 1e7) return `${oneDigit.format(value / 1e6)} M`;
  return whole.format(value);
}

export function exact(value: number): string {
  return whole.format(value);
}

/** 12.4 GiB: powers of two by their own names, as policies and the command line have them; three digits at most. */
export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 999.5 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || Math.abs(size) >= 99.95 ? whole : oneDigit;
  return `${digits.format(size)} ${units[unit] ?? ''}`;
}

/** A length of time: 340 ms, 12 s, 3 min, 2 h 5 min, 4 d. */
export function span(seconds: number): string {
  if (seconds < 1) return `${whole.format(Math.max(0, seconds) * 1000)} ms`;
  if (seconds < 10) return `${oneDigit.format(seconds)} s`;
  if (seconds < MINUTE * 2) return `${whole.format(seconds)} s`;
  if (seconds < HOUR) return `${whole.format(Math.floor(seconds / MINUTE))} min`;
  if (seconds < DAY * 2) return parts(seconds, HOUR, 'h', MINUTE, 'min');
  if (seconds < YEAR * 2) return parts(seconds, DAY, 'd', HOUR, 'h');
  return parts(seconds, YEAR, 'y', MONTH, 'mo');
}

function parts(seconds: number, big: number, bigUnit: string, small: number, smallUnit: string): string {
  const bigs = Math.floor(seconds / big);
  const rest = Math.floor((seconds % big) / small);
  return rest === 0 || bigs >= 10 ? `${bigs} ${bigUnit}` : `${bigs} ${bigUnit} ${rest} ${smallUnit}`;
}

/** A moment against now: "3 min ago", "in 2 h", "just now". */
export function ago(moment: string, now: number): string {
  const seconds = (now - Date.parse(moment)) / 1000;
  if (Math.abs(seconds) < 3) return 'just now';
  const length = span(Math.max(1, Math.round(Math.abs(seconds))));
  return seconds > 0 ? `${length} ago` : `in ${length}`;
}

/** A moment in full, in the viewer's time zone. */
export function moment(text: string): string {
  return new Date(text).toLocaleString('en-GB', {
    year: 'numeric',
    month: 'short',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    timeZoneName: 'short',
  });
}

export function clock(text: string | number): string {
  return new Date(text).toLocaleTimeString('en-GB');
}

export function secondsBetween(from: string, to: string | number): number {
  return ((typeof to === 'number' ? to : Date.parse(to)) - Date.parse(from)) / 1000;
}

/** Many in words: 1 file, 2 files. */
export function many(value: number, noun: string, nouns = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : nouns}`;
}

export function percent(part: number, total: number): number {
  return total <= 0 ? 0 : Math.min(100, Math.max(0, (part / total) * 100));
}

/** Seconds until the rest is done at the speed so far; null while nothing can be said. */
export function remaining(done: number, total: number, elapsed: number): number | null {
  if (done <= 0 || total <= done || elapsed <= 0) return null;
  return ((total - done) / done) * elapsed;
}

/** An engine as people call it: without the build that it was made from. */
export function engineText(engine: string): string {
  return engine.replace(/\s*\(commit [0-9a-f]+\)/, '');
}

/** `rows_removed` as "rows removed". */
export function words(key: string): string {
  return key.replace(/[_-]+/g, ' ');
}
