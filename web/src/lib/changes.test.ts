import { describe, expect, it } from 'vitest';

import type { ChangedRow } from '../api/types';
import { authorOf, cellsOf, lastStep, versionChoices, visible } from './changes';

const NOW = Date.parse('2026-11-21T12:00:00Z');
const update: ChangedRow = {
  change_type: 'update',
  key: { id: '1' },
  before: { id: '1', note: 'a', size: null },
  after: { id: '1', note: 'b', size: null },
  columns: ['note'],
  cut: [],
  snapshot_id: '7',
};

describe('the cells of a change', () => {
  it('of an update are those that differ, or all beside the key', () => {
    expect(cellsOf(update, ['id'], false)).toEqual([{ column: 'note', before: 'a', after: 'b', differs: true, cut: false }]);
    expect(cellsOf(update, ['id'], true).map((cell) => [cell.column, cell.differs])).toEqual([
      ['note', true],
      ['size', false],
    ]);
  });

  it('of an insert and a delete have one side only, and tell null from nothing', () => {
    const inserted = cellsOf({ ...update, change_type: 'insert', before: null, columns: [], cut: ['note'] }, ['id'], false);
    expect(inserted).toEqual([
      { column: 'note', before: undefined, after: 'b', differs: true, cut: true },
      { column: 'size', before: undefined, after: null, differs: true, cut: false },
    ]);
    expect(cellsOf({ ...update, change_type: 'delete', after: null, columns: [] }, ['id'], false)[0]?.after).toBeUndefined();
  });
});

describe('values', () => {
  it('show what nobody would see, and nothing else is changed', () => {
    expect(visible('a\u202eb\u0000')).toBe('a\\u202eb\\u0000');
    expect(visible('<b>ü\n\t❄</b>')).toBe('<b>ü\n\t❄</b>');
  });
});

describe('who has brought a change', () => {
  const nobody = { writer: null, engine: null, job_id: null, principal: null };

  it('is the most telling name', () => {
    expect(authorOf({ ...nobody, writer: 'log', engine: 'Spark' })).toBe('writer log');
    expect(authorOf({ ...nobody, job_id: 'x', engine: 'Spark' })).toBe('a job');
    expect(authorOf({ ...nobody, engine: 'Spark 4.1', principal: 'ada' })).toBe('Spark 4.1, ada');
    expect(authorOf(nobody)).toBe('unknown');
  });
});

describe('versions', () => {
  const version = (number: number) => ({ version: number, base_snapshot_id: null, change_snapshot_id: null, committed_at: '2026-11-21T11:00:00Z' });

  it('are choices with their age, and what the address names is one of them', () => {
    const choices = versionChoices([version(9), version(8)], NOW, ['8', '2', '2026-11-21T09:30:00Z', undefined]);
    expect(choices.map(({ value }) => value)).toEqual(['9', '8', '0', '2', '2026-11-21T09:30:00Z']);
    expect(choices[0]?.label).toBe('version 9, 1 h ago');
    expect(choices.at(-1)?.label).toBe('2026-11-21T09:30:00Z');
  });

  it('begin at the last step', () => {
    expect(lastStep(5)).toBe('4');
    expect(lastStep(0)).toBe('0');
    expect(lastStep(null)).toBe('0');
  });
});
