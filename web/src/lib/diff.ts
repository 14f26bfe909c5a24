/** The lines that two texts do not share. Nothing here knows React. */

export interface DiffLine {
  kind: 'same' | 'added' | 'removed';
  text: string;
}

/** With more pairs of lines than this between the first and the last change, all of them count as replaced. */
const MOST_PAIRS = 1_000_000;

/** From one text to another, line by line, with as few changes as possible. */
export function diffLines(before: string, after: string): DiffLine[] {
  const [old, now] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  const same = (text: string): DiffLine => ({ kind: 'same', text });
  return [
    ...now.slice(0, start).map(same),
    ...diffMiddle(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...now.slice(now.length - end).map(same),
  ];
}

function diffMiddle(old: readonly string[], now: readonly string[]): DiffLine[] {
  const lines: DiffLine[] = [];
  const lengths = old.length * now.length > MOST_PAIRS ? undefined : shareLengths(old, now);
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    const [was, is] = [old[i], now[j]];
    if (lengths !== undefined && was !== undefined && was === is) {
      lines.push({ kind: 'same', text: was });
      i += 1;
      j += 1;
    } else if (was !== undefined && (is === undefined || lengths === undefined || (lengths[i + 1]?.[j] ?? 0) >= (lengths[i]?.[j + 1] ?? 0))) {
      lines.push({ kind: 'removed', text: was });
      i += 1;
    } else if (is !== undefined) {
      lines.push({ kind: 'added', text: is });
      j += 1;
    }
  }
  return lines;
}

/** For each pair of ends, how many lines they can share in order. */
function shareLengths(old: readonly string[], now: readonly string[]): number[][] {
  const lengths = Array.from({ length: old.length + 1 }, () => new Array<number>(now.length + 1).fill(0));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      const row = lengths[i];
      if (row === undefined) continue;
      row[j] = old[i] === now[j] ? (lengths[i + 1]?.[j + 1] ?? 0) + 1 : Math.max(lengths[i + 1]?.[j] ?? 0, row[j + 1] ?? 0);
    }
  }
  return lengths;
}

/** The changed lines with this many lines around them; `gap` counts the lines that are left out before a line. */
export function foldSame(lines: readonly DiffLine[], around = 3): { line: DiffLine; gap: number }[] {
  const shown = lines.map((_, index) => lines.slice(Math.max(0, index - around), index + around + 1).some(({ kind }) => kind !== 'same'));
  let gap = 0;
  return lines.flatMap((line, index) => {
    if (shown[index] !== true) {
      gap += 1;
      return [];
    }
    const entry = { line, gap };
    gap = 0;
    return [entry];
  });
}
