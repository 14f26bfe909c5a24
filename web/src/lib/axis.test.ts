import { describe, expect, it } from 'vitest';

import { axisOf, place, ticks } from './axis';

const noon = Date.parse('2026-03-01T12:00:00Z');
const minute = 60_000;

describe('axis', () => {
  it('shows every moment inside its edges', () => {
    const axis = axisOf([noon, noon + 10 * minute]);
    expect(place(axis, noon)).toBeGreaterThan(0);
    expect(place(axis, noon + 10 * minute)).toBeLessThan(100);
    expect(place(axis, noon + 5 * minute)).toBeCloseTo(50);
  });

  it('gives a single moment a width', () => {
    expect(place(axisOf([noon]), noon)).toBeCloseTo(50);
  });

  it('puts ticks on round moments of the clock, few enough to read', () => {
    const axis = axisOf([noon + 7_000, noon + 40 * minute]);
    const found = ticks(axis, 8, 0);
    expect(found.length).toBeGreaterThan(1);
    expect(found.length).toBeLessThanOrEqual(8);
    expect(found.every((tick) => tick % (5 * minute) === 0)).toBe(true);
  });

  it('keeps years of history readable', () => {
    expect(ticks(axisOf([noon, noon + 3 * 365 * 24 * 60 * minute]), 8, 0).length).toBeLessThanOrEqual(8);
  });
});
