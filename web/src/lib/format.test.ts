import { describe, expect, it } from 'vitest';

import { ago, bytes, count, engineText, many, percent, remaining, span } from './format';

describe('numbers', () => {
  it('keep their digits until digits are noise', () => {
    expect([0, 336_776, 9_999_999, 12_400_000, 3_000_000_000].map(count)).toEqual([
      '0',
      '336,776',
      '9,999,999',
      '12.4 M',
      '3 B',
    ]);
  });

  it('agree with their noun', () => {
    expect([many(1, 'file'), many(2, 'file'), many(2, 'entry', 'entries')]).toEqual(['1 file', '2 files', '2 entries']);
  });

  it('never leave the bar', () => {
    expect([percent(5, 0), percent(30, 20), percent(1, 4)]).toEqual([0, 100, 25]);
  });
});

describe('engines', () => {
  it('are named without their build', () => {
    expect(engineText('Apache Iceberg 1.12.0 (commit 212aa894e919ff9f)')).toBe('Apache Iceberg 1.12.0');
    expect(engineText('spark 4.1.4')).toBe('spark 4.1.4');
  });
});

describe('sizes', () => {
  it('have three digits, by powers of two', () => {
    expect([0, 999, 1000, 12_749, 1_048_000, 128 * 1024 ** 2, 12.4 * 1024 ** 3].map(bytes)).toEqual([
      '0 B',
      '999 B',
      '1 KiB',
      '12.5 KiB',
      '1 MiB',
      '128 MiB',
      '12.4 GiB',
    ]);
  });
});

describe('times', () => {
  it('name two units where one would mislead', () => {
    expect([0.34, 4.25, 59, 119, 180, 7500, 36_000, 90_000, 200_000].map(span)).toEqual([
      '340 ms',
      '4.3 s',
      '59 s',
      '119 s',
      '3 min',
      '2 h 5 min',
      '10 h',
      '25 h',
      '2 d 7 h',
    ]);
  });

  it('look both ways from now', () => {
    const now = Date.parse('2026-03-01T12:00:00Z');
    expect(ago('2026-03-01T11:57:00Z', now)).toBe('3 min ago');
    expect(ago('2026-03-01T12:10:00Z', now)).toBe('in 10 min');
    expect(ago('2026-03-01T12:00:01Z', now)).toBe('just now');
    expect(ago('2023-02-01T12:00:00Z', now)).toBe('3 y ago');
    expect(ago('2023-09-01T12:00:00Z', now)).toBe('2 y 6 mo ago');
  });

  it('guess the rest only when there is something to go by', () => {
    expect(remaining(0, 10, 5)).toBeNull();
    expect(remaining(10, 10, 5)).toBeNull();
    expect(remaining(2, 10, 4)).toBe(16);
  });
});
