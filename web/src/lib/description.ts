/** What people have written about an object: how a form changes it. */
import type { Description } from '../api/types';

export interface DescriptionChange {
  comment?: string;
  owner?: string;
  add_labels: string[];
  remove_labels: string[];
}

/** What a form holds; a text that nobody has written is empty. */
export interface Draft {
  comment: string;
  owner: string;
  labels: string[];
}

export const draftOf = ({ comment, owner, labels }: Description): Draft => ({ comment: comment ?? '', owner: owner ?? '', labels });

/** A label as the server keeps it. */
export const asLabel = (text: string): string => text.trim().toLowerCase();

/**
 * Only what the form has changed: a label that somebody else adds meanwhile stays, and so does a text that this form
 * leaves as it was.
 */
export function changeOf(before: Description, draft: Draft): DescriptionChange {
  const old = draftOf(before);
  const labels = draft.labels.map(asLabel);
  return {
    ...(draft.comment.trim() === old.comment.trim() ? {} : { comment: draft.comment.trim() }),
    ...(draft.owner.trim() === old.owner.trim() ? {} : { owner: draft.owner.trim() }),
    add_labels: labels.filter((label) => !old.labels.includes(label)),
    remove_labels: old.labels.filter((label) => !labels.includes(label)),
  };
}

export function isEmpty(change: DescriptionChange): boolean {
  return change.comment === undefined && change.owner === undefined && change.add_labels.length === 0 && change.remove_labels.length === 0;
}

/** The options of `firn … describe`; null for a removed text, which the command of a form does not show. */
export function optionsOf(change: DescriptionChange): { comment: string; owner: string; label: string[]; 'remove-label': string[] } | null {
  if (change.comment === '' || change.owner === '') return null;
  return { comment: change.comment ?? '', owner: change.owner ?? '', label: change.add_labels, 'remove-label': change.remove_labels };
}
