import { describe, expect, it } from 'vitest';

import { addSample, linePoints, type Sample } from './rates';

const measured = (second: number, rate: number | null) => ({ measured_at: new Date(second * 1000).toISOString(), rows_per_second: rate });

describe('samples of a rate', () => {
  it('take a measure once, and nothing from a stream that does not run', () => {
    let samples: readonly Sample[] = [];
    for (const stream of [measured(1, 10), measured(1, 10), measured(2, null), measured(3, 0), { measured_at: null, rows_per_second: 5 }]) {
      samples = addSample(samples, stream);
    }
    expect(samples).toEqual([
      { at: 1000, rate: 10 },
      { at: 3000, rate: 0 },
    ]);
  });

  it('are bounded', () => {
    let samples: readonly Sample[] = [];
    for (let second = 0; second < 100; second += 1) samples = addSample(samples, measured(second, second));
    expect(samples).toHaveLength(60);
    expect(samples.at(-1)?.rate).toBe(99);
  });

  it('make a line whose highest point is at the top', () => {
    const samples = [
      { at: 0, rate: 0 },
      { at: 1000, rate: 50 },
      { at: 4000, rate: 100 },
    ];
    expect(linePoints(samples, 80, 20)).toBe('0.0,20.0 20.0,10.0 80.0,0.0');
    expect(linePoints([{ at: 5, rate: 0 }], 80, 20)).toBe('0.0,20.0');
  });
});
