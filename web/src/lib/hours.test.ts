import { describe, expect, it } from 'vitest';

import { barsOf, type Hour } from './hours';

const START = Date.parse('2026-11-20T00:00:00Z');

function day(ended: Record<number, Partial<Hour>>): Hour[] {
  return Array.from({ length: 24 }, (_, hour) => ({
    begins: new Date(START + hour * 3_600_000).toISOString(),
    succeeded: 0,
    failed: 0,
    canceled: 0,
    bytes_freed: 0,
    ...ended[hour],
  }));
}

describe('hours as bars', () => {
  it('are none when nothing has ended', () => {
    expect(barsOf(day({}))).toEqual([]);
    expect(barsOf([])).toEqual([]);
  });

  it('are as high as the jobs in them, failed ones apart', () => {
    const bars = barsOf(day({ 3: { succeeded: 6, failed: 2 }, 23: { succeeded: 2, bytes_freed: 2048 } }));
    expect(bars).toHaveLength(24);
    expect(bars[3]).toMatchObject({ succeeded: 75, failed: 25, canceled: 0 });
    expect(bars[23]).toMatchObject({ succeeded: 25, failed: 0 });
    expect(bars[0]).toMatchObject({ succeeded: 0, failed: 0 });
  });

  it('say what they mean', () => {
    const [bar] = barsOf(day({ 0: { succeeded: 1, failed: 2, bytes_freed: 2048 } }));
    expect(bar?.text).toMatch(/: 1 job succeeded, 2 failed, .* freed$/);
  });

  it('have a time under every sixth', () => {
    expect(barsOf(day({ 1: { succeeded: 1 } })).filter(({ tick }) => tick !== null)).toHaveLength(4);
  });
});
