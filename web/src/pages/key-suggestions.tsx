import { Button } from '@mantine/core';

import type { KeySuggestion } from '../api/types';
import styles from './upgrade.module.css';

/** Keys to begin with, the most probable first, each with what speaks for it. */
export function KeySuggestions({
  suggestions,
  chosen,
  choose,
}: {
  suggestions: readonly KeySuggestion[];
  chosen: readonly string[];
  choose: (columns: string[]) => void;
}) {
  if (suggestions.length === 0) return <div className="dim">No column looks like a key, by its name and by the footers of some files.</div>;
  return (
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
  );
}

/** The columns that may be in a key, those of suggestions first. */
export function suggestedFirst(report: { primary_key_candidates?: string[]; key_suggestions?: readonly { columns: string[] }[] }): string[] {
  const suggested = (report.key_suggestions ?? []).flatMap(({ columns }) => columns);
  return [...new Set([...suggested, ...(report.primary_key_candidates ?? [])])];
}
