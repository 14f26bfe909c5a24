import { describe, expect, it } from 'vitest';

import { consumerState, describeReset, engineOf, isLate, logOf, lossText, parsePosition, partitionLines, positionLines, positionText, rateText, resetTarget, streamText, waitingText, writerState } from './streams';

describe('positions', () => {
  it('are read where they are those of a topic', () => {
    expect(parsePosition('orders:0:1488,1:1512')).toEqual({ topic: 'orders', offsets: [['0', 1488], ['1', 1512]] });
    expect(parsePosition('a:b:0:7')).toEqual({ topic: 'a:b', offsets: [['0', 7]] });
    expect(parsePosition('2026-11-21 line 7')).toBeNull();
    expect(parsePosition('orders:0:x')).toBeNull();
  });

  it('are short in a list and full on request', () => {
    const many = `orders:${Array.from({ length: 12 }, (_, number) => `${number}:${number * 1000}`).join(',')}`;
    expect(positionText(many)).toBe('orders: 12 partitions');
    expect(positionText('orders:0:1,1:2')).toBe('orders:0:1,1:2');
    expect(positionText(null)).toBe('none');
    expect(positionLines(many).split('\n')).toHaveLength(13);
    expect(positionLines('offset 7')).toBe('offset 7');
  });
});

describe('logs', () => {
  it('are named by properties', () => {
    expect(logOf({ properties: {} })).toBeNull();
    expect(logOf({ properties: { 'firn.log.topic': 't', 'firn.log.format': 'firn-json', 'firn.log.brokers': 'k:1' } })).toEqual({
      topic: 't',
      format: 'firn-json',
      connection: null,
      brokers: 'k:1',
    });
  });

  it('are reset to what the server takes', () => {
    expect(resetTarget('latest', 'x')).toBe('latest');
    expect(resetTarget('offsets', ' orders:0:1 ')).toBe('orders:0:1');
    expect(resetTarget('offsets', ' ')).toBeNull();
    expect(resetTarget('time', '2026-11-21T09:30')).toBe(new Date('2026-11-21T09:30').toISOString());
    expect(resetTarget('time', '')).toBeNull();
  });

  it('say how much waits and how much a skip loses', () => {
    expect(waitingText(0)).toBe('no record waits');
    expect(waitingText(1)).toBe('up to 1 record waits');
    expect(waitingText(1200)).toBe('up to 1,200 records wait');
    expect(lossText(null)).toContain('Nobody can count');
    expect(lossText(0)).toBe('No record is lost.');
    expect(lossText(3)).toBe('Up to 3 records stay missing in the table.');
    expect(partitionLines({ start: { 0: 5 }, end: { 0: 1007, 1: 2 } })).toBe('partition 0: 5 of 1,007\npartition 1: 0 of 2');
  });
});

describe('states', () => {
  it('of writers', () => {
    expect(writerState({ fenced_at: null, committed_at: null })).toBe('new');
    expect(writerState({ fenced_at: null, committed_at: '2026-01-01T00:00:00Z' })).toBe('open');
    expect(writerState({ fenced_at: '2026-01-01T00:00:00Z', committed_at: null })).toBe('fenced');
  });

  it('of consumers: one whose versions have expired is behind', () => {
    expect(consumerState({ first_version_left: 7, lag_versions: 9 })).toBe('behind');
    expect(consumerState({ first_version_left: null, lag_versions: 9 })).toBe('waiting');
    expect(consumerState({ first_version_left: null, lag_versions: 0 })).toBe('current');
  });

  it('a reset forwards skips, and one backwards repeats', () => {
    expect(describeReset(3, 7)).toBe('It skips the changes of versions 4 to 7, and never reads them.');
    expect(describeReset(6, 7)).toContain('of version 7, and');
    expect(describeReset(7, 3)).toBe('It reads the changes of versions 4 to 7 again.');
    expect(describeReset(7, 6)).toBe('It reads the changes of version 7 again.');
    expect(describeReset(7, 7)).toBe('It stays at version 7.');
  });
});

describe('streams', () => {
  it('are late beyond the aim of their table, unless they are paused', () => {
    expect(isLate({ status: 'running', lag_seconds: 31, max_lag_seconds: 30 })).toBe(true);
    expect(isLate({ status: 'running', lag_seconds: 29, max_lag_seconds: 30 })).toBe(false);
    expect(isLate({ status: 'paused', lag_seconds: 9000, max_lag_seconds: 30 })).toBe(false);
    expect(isLate({ status: 'stopped', lag_seconds: 9000, max_lag_seconds: null })).toBe(false);
  });

  it('name the engine of the newest attempt, and why it is Spark', () => {
    const attempt = { number: 1, optimizer: 'o', leased_at: '2026-11-28T10:00:00Z', ended_at: null, outcome: null, engine: null, engine_reason: null };
    expect(engineOf({ attempts: [] })).toBeNull();
    expect(engineOf({ attempts: [{ ...attempt, engine: 'spark' }, attempt] })).toBeNull();
    expect(engineOf({ attempts: [attempt, { ...attempt, engine: 'light' }] })).toEqual({ name: 'without Spark', reason: null });
    const reason = 'column at is a time';
    expect(engineOf({ attempts: [{ ...attempt, engine: 'spark', engine_reason: reason }] })).toEqual({ name: 'Spark', reason });
  });

  it('say their state, rate and lag', () => {
    expect(rateText(1234.4)).toBe('1,234');
    expect(rateText(0.25)).toBe('0.3');
    expect(rateText(0)).toBe('0');
    expect(streamText({ status: 'running', failures: 0, rows_per_second: 1200, lag_seconds: 3 })).toBe('running, 1,200 rows/s, 3 s behind');
    expect(streamText({ status: 'running', failures: 0, rows_per_second: null, lag_seconds: 0 })).toBe('running');
    expect(streamText({ status: 'waiting', failures: 2, rows_per_second: null, lag_seconds: 9 })).toBe('waiting after a failure');
    expect(streamText({ status: 'paused', failures: 0, rows_per_second: null, lag_seconds: 9 })).toBe('paused');
  });
});
