import { describe, expect, it } from 'vitest';

import { changesOf, compared, gainedBy, gainText } from './prediction';

const predicted = { files_before: 1000, files_after: 12, bytes_before: 2_000_000, bytes_after: 2_000_000, deletes_before: 3, deletes_after: 0, seconds: 12 };

it('a gain is said by what changes, and how long it takes', () => {
  expect(gainText(predicted)).toBe('1,000 → 12 data files, 3 → 0 delete files, in about 12 s');
  expect(gainText({ files_before: 4, files_after: 4 })).toBe('');
  expect(changesOf({ files_before: 1 })).toEqual([]);
});

describe('predicted against gained', () => {
  it('stands beside each other', () => {
    expect(compared(predicted, { files_before: 1001, files_after: 20 })[0]).toEqual({
      key: 'files',
      name: 'data files',
      before: '1,001',
      predicted: '12',
      gained: '20',
    });
  });

  it('leaves open what nobody told', () => {
    expect(compared({}, { files_before: 2, files_after: 1 })).toMatchObject([{ predicted: null, gained: '1' }]);
    expect(compared({}, {})).toEqual([]);
    expect(gainedBy({ rows: 3 })).toEqual({});
  });
});
