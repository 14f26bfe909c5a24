/** Names as people write them: `db.orders`; a part with a dot or a backtick stands between backticks, as in Spark SQL. */

const PART = /`((?:[^`]|``)+)`|([^.`]+)/y;

export const quoted = (part: string): string => `\`${part.replaceAll('`', '``')}\``;

export function dotted(parts: readonly string[]): string {
  return parts.map((part) => (/[.`]/.test(part) ? quoted(part) : part)).join('.');
}

/** The parts of a dotted name; one part, the text itself, where it is none. */
export function partsOf(text: string): string[] {
  const parts: string[] = [];
  for (let at = 0; at <= text.length; at = PART.lastIndex + 1) {
    PART.lastIndex = at;
    const found = PART.exec(text);
    if (found === null || (PART.lastIndex < text.length && text[PART.lastIndex] !== '.')) return [text];
    parts.push(found[1] === undefined ? (found[2] ?? '') : found[1].replaceAll('``', '`'));
  }
  return parts;
}

/** The parts as Spark SQL reads them; those that it would read as they are stay so. */
export function sqlName(parts: readonly string[]): string {
  return parts.map((part) => (/^[A-Za-z_]\w*$/.test(part) ? part : quoted(part))).join('.');
}
