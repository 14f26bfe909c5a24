/** Policy settings as people look for them: by area, by words, by where they are set. */

export interface PolicySetting {
  key: string;
  value: string;
  source: string;
  default: string;
  does: string;
  choices: readonly string[];
  ignored: readonly { source: string }[];
}

/** Whether something is written at a place itself, also what nobody can read. */
export const isSetAt = (place: string, { source, ignored }: Pick<PolicySetting, 'source' | 'ignored'>): boolean =>
  source === place || ignored.some((item) => item.source === place);

interface Area {
  title: string;
  /** What the keys of its settings begin with, after `firn.`. */
  names: readonly string[];
}

const AREAS: readonly Area[] = [
  { title: 'When and where jobs run', names: ['optimize'] },
  { title: 'Merging changes', names: ['merge', 'tombstone'] },
  { title: 'File sizes and deletes', names: ['rewrite', 'compact', 'deletes', 'manifests'] },
  { title: 'Snapshots and tags', names: ['expire', 'tags'] },
  { title: 'Orphan files', names: ['orphans'] },
  { title: 'Old rows', names: ['ttl'] },
  { title: 'Statistics', names: ['statistics'] },
  { title: 'Hive', names: ['hive'] },
];
const REST = 'Other';

const areaOf = (key: string): string => AREAS.find(({ names }) => names.includes(key.split('.')[1] ?? ''))?.title ?? REST;

export type Shown = 'all' | 'changed' | 'own';

interface Look {
  find: string;
  shown: Shown;
  /** What the server calls the place that is looked at: `table`, `namespace db`, `catalog`. */
  place: string;
}

/** The settings that are looked for, by area, in the order of the areas. */
export function byArea<One extends PolicySetting>(settings: readonly One[], { find, shown, place }: Look): { title: string; settings: One[] }[] {
  const words = find.toLowerCase().split(/\s+/).filter((word) => word !== '');
  const wanted = settings.filter((setting) => {
    if (shown === 'own' && !isSetAt(place, setting)) return false;
    if (shown === 'changed' && setting.source === 'default' && setting.ignored.length === 0) return false;
    const text = `${setting.key} ${setting.does} ${setting.value} ${areaOf(setting.key)}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  return [...AREAS.map(({ title }) => title), REST]
    .map((title) => ({ title, settings: wanted.filter((item) => areaOf(item.key) === title) }))
    .filter((area) => area.settings.length > 0);
}

/** The namespace that a value comes from, '' for the catalog itself; undefined for what is set nowhere above. */
export function namespaceOf(source: string): string | undefined {
  if (source === 'catalog') return '';
  return source.startsWith('namespace ') ? source.slice('namespace '.length) : undefined;
}

export type Form = 'choice' | 'size' | 'duration' | 'share' | 'count' | 'schedule' | 'windows' | 'text';

const SIZE = /^(\d+(?:\.\d+)?)\s*([kmgt]?i?b)$/i;
const DURATION = /^(\d+(?:\.\d+)?)\s*(ms|s|sec|min|m|h|d)$/i;

/** How a setting's values are written, as its choices, its key and its default tell. */
export function formOf({ key, default: usual, choices }: Pick<PolicySetting, 'key' | 'default' | 'choices'>): Form {
  if (choices.length > 0) return 'choice';
  if (key.endsWith('.schedule')) return 'schedule';
  if (/\.(window|not-during)$/.test(key)) return 'windows';
  if (DURATION.test(usual) || key.endsWith('.max-age')) return 'duration';
  if (SIZE.test(usual)) return 'size';
  if (/^0?\.\d+$/.test(usual)) return 'share';
  return /^\d+$/.test(usual) ? 'count' : 'text';
}

export const WRITTEN: Record<Form, string> = {
  choice: '',
  size: 'A number and one of B, KiB, MiB, GiB, such as 128 MiB',
  duration: 'A number and one of s, min, h, d, such as 10 min',
  share: 'A number from 0 to 1, such as 0.3',
  count: 'A whole number, 1 or more',
  schedule: 'Minute, hour, day, month, weekday, such as 0 3 * * 0 for Sundays at three',
  windows: 'When it begins and how long it lasts, such as 0 22 * * * for 8 h; several with a semicolon between',
  text: '',
};

/** The choice that a value stands for: engines may write it with other letters or spaces around. */
export function chosen({ value, choices }: Pick<PolicySetting, 'value' | 'choices'>): string {
  return choices.find((choice) => choice === value.trim().toLowerCase()) ?? value;
}

const POWERS: Record<string, number> = { b: 1, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30, tib: 2 ** 40, kb: 1e3, mb: 1e6, gb: 1e9 };
const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });

/** A value in another unit or in words, for who does not think in the one that was chosen; null when that tells no more. */
export function inOtherWords(value: string, form: Form): string | null {
  const text = value.trim();
  const size = SIZE.exec(text);
  if (form === 'size' && size !== null) return `${whole.format(Number(size[1]) * (POWERS[(size[2] ?? '').toLowerCase()] ?? 1))} bytes`;
  if (form === 'share' && /^\d*\.?\d+$/.test(text)) return `${whole.format(Number(text) * 100)} %`;
  if (form === 'count' && /^\d{5,}$/.test(text)) return whole.format(Number(text));
  if (form === 'schedule') return cronInWords(text);
  if (form === 'windows') return windowsInWords(text);
  return null;
}

/** A setting's value in other words. Times are of the policy's zone, not the reader's, and a schedule that nobody has set is spread. */
export function otherWords(setting: Pick<PolicySetting, 'key' | 'default' | 'choices' | 'value' | 'source'>, zone: string): string | null {
  const form = formOf(setting);
  const words = inOtherWords(setting.value, form);
  if (words === null || (form !== 'schedule' && form !== 'windows')) return words;
  return `${words} (${zone})${setting.source === 'default' ? ', at each table’s own time within six hours from then' : ''}`;
}

function windowsInWords(text: string): string | null {
  const parts = text.split(';').map((part) => {
    const [cron = '', lasts] = part.split(' for ');
    const begins = cronInWords(cron.trim());
    return begins === null || lasts === undefined ? null : `${begins}, for ${lasts.trim()}`;
  });
  return parts.every((part) => part !== null) ? parts.join('; ') : null;
}

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];

/** The everyday schedules in words; null for the others. */
export function cronInWords(cron: string): string | null {
  const [minute = '', hour = '', day = '', month = '', weekday = '', more] = cron.split(/\s+/);
  if (weekday === '' || more !== undefined || month !== '*') return null;
  const every = /^\*\/(\d+)$/.exec(minute);
  if (every !== null && [hour, day, weekday].every((field) => field === '*')) return `every ${every[1] ?? ''} min`;
  if (!/^\d+$/.test(minute)) return null;
  if (hour === '*' && day === '*' && weekday === '*') return `every hour at minute ${minute}`;
  if (!/^\d+$/.test(hour)) return null;
  const at = `at ${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`;
  if (day !== '*') return weekday === '*' && /^\d+$/.test(day) ? `on day ${day} of each month ${at}` : null;
  const days = daysInWords(weekday);
  return days === null ? null : `${days} ${at}`;
}

function daysInWords(weekday: string): string | null {
  if (weekday === '*') return 'every day';
  if (/^[0-7](,[0-7])*$/.test(weekday)) return weekday.split(',').map((day) => `${DAYS[Number(day)] ?? ''}s`).join(', ');
  const span = /^([0-7])-([0-7])$/.exec(weekday);
  return span === null ? null : `${DAYS[Number(span[1])] ?? ''} to ${DAYS[Number(span[2])] ?? ''}`;
}
