import { Button } from '@mantine/core';

import type { DisprovedKey, KeySuggestion } from '../api/types';
import styles from './upgrade.module.css';

interface SuggestionsProps {
  suggestions: readonly KeySuggestion[];
  disproved: readonly DisprovedKey[];
  chosen: readonly string[];
  choose: (columns: string[]) => void;
}

/** Keys to begin with, the most probable first, each with what speaks for it; then those that sampled rows disprove. */
export function KeySuggestions({ suggestions, disproved, chosen, choose }: SuggestionsProps) {
  return (
    <>
      {suggestions.length === 0 && <div className="dim">No column looks like a key, by its name and by a sample of files.</div>}
      {suggestions.length > 0 && (
        <ul className={styles.suggestions} aria-label="suggested keys">
          {suggestions.map(({ columns, confidence, evidence }) => {
            const name = columns.join(', ');
            const isChosen = name === chosen.join(', ');
            return (
              <li key={name} className={styles.suggestion}>
                <Button size="xs" variant={isChosen ? 'light' : 'default'} aria-pressed={isChosen} onClick={() => choose(columns)}>
                  <span className="mono">{name}</span>
                </Button>
                <span>
                  {confidence}: <span className="dim">{evidence.join('; ')}</span>
                </span>
              </li>
            );
          })}
        </ul>
      )}
      {disproved.length > 0 && (
        <ul className={styles.suggestions} aria-label="disproved keys">
          {disproved.map(({ columns, reason }) => (
            <li key={columns.join(', ')}>
              <span className="mono">{columns.join(', ')}</span> is no key: <span className="dim">{reason}</span>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** The columns that may be in a key, those of suggestions first. */
export function suggestedFirst(report: { primary_key_candidates?: string[]; key_suggestions?: readonly { columns: string[] }[] }): string[] {
  const suggested = (report.key_suggestions ?? []).flatMap(({ columns }) => columns);
  return [...new Set([...suggested, ...(report.primary_key_candidates ?? [])])];
}
