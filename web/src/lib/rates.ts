/** Rates of a stream over time, from the samples that the page has seen. Nothing here knows React. */

export interface Sample {
  /** When the optimizer measured it, in milliseconds. */
  at: number;
  rate: number;
}

const MOST = 60;

/** The samples with a new one; the oldest leave. A stream that was not measured anew gives the same list. */
export function addSample(samples: readonly Sample[], stream: { measured_at: string | null; rows_per_second: number | null }): readonly Sample[] {
  if (stream.measured_at === null || stream.rows_per_second === null) return samples;
  const at = Date.parse(stream.measured_at);
  const last = samples.at(-1);
  if (Number.isNaN(at) || (last !== undefined && at <= last.at)) return samples;
  return [...samples, { at, rate: stream.rows_per_second }].slice(-MOST);
}

/** The points of a line through the samples, for an SVG of this size: time goes right, and 0 is at the bottom. */
export function linePoints(samples: readonly Sample[], width: number, height: number): string {
  const first = samples[0]?.at ?? 0;
  const span = Math.max(1, (samples.at(-1)?.at ?? 0) - first);
  const top = Math.max(1, ...samples.map((sample) => sample.rate));
  return samples.map((sample) => `${(((sample.at - first) / span) * width).toFixed(1)},${((1 - sample.rate / top) * height).toFixed(1)}`).join(' ');
}
