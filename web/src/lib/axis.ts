/** One time axis: where moments lie on it and which ticks it shows. */

export interface Axis {
  from: number;
  to: number;
}

const SECOND = 1000;
const STEPS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400, 30 * 86_400].map(
  (seconds) => seconds * SECOND,
);
const EDGE = 0.03;

/** The axis that shows all moments, with a little room at both ends. */
export function axisOf(moments: readonly number[], atLeast = 10 * SECOND): Axis {
  const first = Math.min(...moments);
  const last = Math.max(...moments);
  const room = Math.max(atLeast, last - first) * EDGE;
  const middle = (first + last) / 2;
  const half = Math.max(atLeast, last - first) / 2;
  return { from: middle - half - room, to: middle + half + room };
}

/** Per cent of the axis. */
export function place(axis: Axis, moment: number): number {
  return ((moment - axis.from) / (axis.to - axis.from)) * 100;
}

/** Round moments of the viewer's clock, at most `most` of them. */
export function ticks(axis: Axis, most: number, offsetMinutes = new Date(axis.from).getTimezoneOffset()): number[] {
  const span = axis.to - axis.from;
  const step = STEPS.find((item) => span / item <= most) ?? Math.ceil(span / most / (STEPS.at(-1) ?? 1)) * (STEPS.at(-1) ?? 1);
  const shift = offsetMinutes * 60 * SECOND;
  const first = Math.ceil((axis.from - shift) / step) * step + shift;
  const found: number[] = [];
  for (let tick = first; tick <= axis.to; tick += step) found.push(tick);
  return found;
}

export function tickText(tick: number, axis: Axis): string {
  const span = axis.to - axis.from;
  const date = new Date(tick);
  if (span > 2 * 86_400 * SECOND) return date.toLocaleDateString('en-GB', { day: '2-digit', month: 'short' });
  const precise = span < 10 * 60 * SECOND ? ({ second: '2-digit' } as const) : {};
  return date.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', ...precise });
}
