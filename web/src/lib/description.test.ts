import { describe, expect, it } from 'vitest';

import { changeOf, draftOf, isEmpty, optionsOf } from './description';

const BEFORE = { comment: 'One row an order', owner: null, labels: ['pii', 'gold'] };

describe('the change of a description', () => {
  it('holds only what the form has changed', () => {
    expect(isEmpty(changeOf(BEFORE, draftOf(BEFORE)))).toBe(true);
    expect(changeOf(BEFORE, { comment: ' One row an order ', owner: 'sales', labels: ['gold', ' Audited'] })).toEqual({
      owner: 'sales',
      add_labels: ['audited'],
      remove_labels: ['pii'],
    });
  });

  it('removes a text that is empty now', () => {
    expect(changeOf(BEFORE, { ...draftOf(BEFORE), comment: ' ' })).toEqual({ comment: '', add_labels: [], remove_labels: [] });
  });

  it('is shown as a command unless it removes a text', () => {
    expect(optionsOf({ owner: 'sales', add_labels: ['gold'], remove_labels: [] })).toEqual({ comment: '', owner: 'sales', label: ['gold'], 'remove-label': [] });
    expect(optionsOf({ comment: '', add_labels: [], remove_labels: [] })).toBeNull();
  });
});
