/** Commands of a terminal that do the same as the console. `tests/contract/test_console_commands.py` reads every call. */

type Value = string | number | boolean | null | readonly string[];

const DEFAULT_SERVER = 'http://127.0.0.1:8630';

/**
 * `firn COMMAND NAMES --OPTIONS`, for a POSIX shell. An option that is false, null or an empty text is left out; one that
 * is true has no value; a list gives one option for each of its texts. The address is added unless it is the one that
 * `firn` asks without it.
 */
export function firn(command: string, names: readonly string[], options: Readonly<Record<string, Value>> = {}, server: string = location.origin): string {
  const given = Object.entries(server === DEFAULT_SERVER ? options : { ...options, server });
  const single = given.flatMap(([name, value]) => (Array.isArray(value) ? value.map((text: string) => [name, text] as const) : [[name, value as Exclude<Value, readonly string[]>] as const]));
  const flags = single
    .filter(([, value]) => value !== false && value !== null && value !== '')
    .map(([name, value]) => (value === true ? `--${name}` : `--${name} ${quoted(String(value))}`));
  const words = names.map(quoted);
  // Behind two dashes, a name that begins with a dash is no option.
  const rest = names.some((name) => name.startsWith('-')) ? [...flags, '--', ...words] : [...words, ...flags];
  return ['firn', command, ...rest].join(' ');
}

/** For a POSIX shell. */
export const quoted = (text: string): string => (/^[\w.=/:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
