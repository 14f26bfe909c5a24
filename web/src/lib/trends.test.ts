import { describe, expect, it } from 'vitest';

import { axisRange, changeText, chartsOf, describeChart, figureOf, timeTick } from './trends';

const times = ['2026-11-21T10:00:00Z', '2026-11-21T11:00:00Z', '2026-11-21T12:00:00Z'];

function trend(values: Record<string, (number | null)[]>) {
  return { times, series: Object.entries(values).map(([measure, series]) => ({ measure, values: series })) };
}

describe('chartsOf', () => {
  it('leaves out what never was anything but zero, but shows an empty table', () => {
    const charts = chartsOf(trend({ rows: [null, 0, 0], pending_rows: [0, 0, 0], jobs: [0, 0, 3], failed_jobs: [0, 0, 1], tables: [1, 1, 1] }), true);
    expect(charts.map(({ kind }) => kind.title)).toEqual(['Rows', 'Jobs']);
    expect(charts[1]?.lines.map(({ label }) => label)).toEqual(['ended', 'failed']);
  });

  it('shows nothing without samples, and the number of tables of a catalog', () => {
    expect(chartsOf({ times: [], series: [] }, true)).toEqual([]);
    expect(chartsOf(trend({ tables: [1, 2, 3] }), false).map(({ kind }) => kind.title)).toEqual(['Tables']);
  });
});

describe('what is said of a chart', () => {
  const [rows, jobs] = chartsOf(trend({ rows: [null, 1000, 1500], jobs: [1, 0, 3] }), true);
  if (rows === undefined || jobs === undefined) throw new Error('two charts');

  it('is the last value and its change, or the sum of what happened', () => {
    expect(figureOf(rows)).toEqual({ value: '1,500', note: '+50%' });
    expect(figureOf(jobs)).toEqual({ value: '4', note: 'in this time' });
  });

  it('is a sentence for who cannot see it', () => {
    expect(describeChart(rows)).toBe('Rows: from 1,000 to 1,500, lowest 1,000, highest 1,500');
    expect(describeChart(jobs)).toBe('Jobs: 4 in this time');
  });
});

describe('changeText', () => {
  it.each([
    [100, 100, 'unchanged'],
    [0, 5, 'from 0'],
    [100, 104.5, '+4.5%'],
    [200, 100, '−50%'],
  ])('%d to %d', (first, last, text) => expect(changeText(first, last)).toBe(text));
});

describe('axisRange', () => {
  it('begins at zero unless the values are close together', () => {
    expect(axisRange(10, 100)).toEqual([0, 112.00000000000001]);
    expect(axisRange(0, 0)).toEqual([0, 1]);
    expect(axisRange(null, null)).toEqual([0, 1]);
    expect(axisRange(20, 90, 100)).toEqual([0, 100]);
    const [low, high] = axisRange(990, 1000);
    expect(low).toBeGreaterThan(900);
    expect(high).toBeGreaterThan(1000);
  });
});

describe('timeTick', () => {
  it('names days, times within a day, and the date at midnight', () => {
    const at = (text: string) => new Date(text).getTime() / 1000;
    expect(timeTick(at('2026-11-21T00:00:00'), 86_400)).toBe('21 Nov');
    expect(timeTick(at('2026-11-21T06:30:00'), 3_600)).toBe('06:30');
    expect(timeTick(at('2026-11-21T00:00:00'), 3_600)).toBe('21 Nov');
    expect(timeTick(at('2026-11-01T00:00:00'), 30 * 86_400)).toBe('Nov 2026');
  });
});
