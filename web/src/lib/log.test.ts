import { describe, expect, it } from 'vitest';

import { isTopic, logProperties, missingInLog, needsRegistry, NEW_LOG, pairsOf } from './log';

const log = { connection: 'main', topic: ' orders ', format: 'upsert-json' };

describe('the log of a new table', () => {
  it('says what is missing', () => {
    expect(missingInLog(null)).toBeNull();
    expect(missingInLog(NEW_LOG)).toContain('connection');
    expect(missingInLog({ ...log, topic: ' ' })).toContain('topic');
    expect(missingInLog({ ...log, topic: 'a/b' })).toContain('characters');
    expect(missingInLog({ ...log, format: '' })).toContain('format');
    expect(missingInLog(log)).toBeNull();
  });

  it('takes the names that the server takes', () => {
    expect(['orders', 'a.b_c-1', 'x'.repeat(249)].map(isTopic)).toEqual([true, true, true]);
    expect(['', '.', '..', 'a b', 'ü', '<b>', 'x'.repeat(250)].map(isTopic)).toEqual([false, false, false, false, false, false, false]);
  });

  it('becomes properties of the table', () => {
    expect(pairsOf(logProperties(log))).toEqual(['firn.log.topic=orders', 'firn.log.connection=main', 'firn.log.format=upsert-json']);
    expect(logProperties(null)).toEqual({});
    expect(['avro', 'debezium-avro', 'debezium-json'].map(needsRegistry)).toEqual([true, true, false]);
  });
});
