import type { Change } from '../../api/types';
import styles from './changes.module.css';

/** Added, removed or different: a shape beside the words. */
function signOf(change: Change): string {
  if (/^(created|registered|restored)$/.test(change.kind)) return '+';
  if (/^(dropped|expired)$/.test(change.kind)) return '-';
  if (change.kind === 'column added') return '+';
  if (change.kind === 'column dropped') return '-';
  if (change.before === null && change.after !== null) return '+';
  return change.after === null && change.before !== null ? '-' : '~';
}

/** What a commit changed, one line each; SQL line by line, and long values in full. */
export function ChangeList({ changes }: { changes: readonly Change[] }) {
  if (changes.length === 0) return <span className="dim">No recorded changes.</span>;
  return (
    <ul className={styles.list}>
      {changes.map((change) => (
        <li key={`${change.kind}/${change.name}`} className={styles.change}>
          <span className={styles.sign} data-sign={signOf(change)} aria-hidden>
            {signOf(change)}
          </span>
          <div className="wrap-anywhere">
            <span title={change.after ?? change.before ?? undefined}>{change.description}</span>
            {change.diff !== null && <Diff lines={change.diff} name={change.name} />}
          </div>
        </li>
      ))}
    </ul>
  );
}

function Diff({ lines, name }: { lines: NonNullable<Change['diff']>; name: string }) {
  return (
    <pre className={styles.diff} aria-label={`SQL for ${name}, line by line`} tabIndex={0} role="group">
      {lines.map((line, index) => (
        <span key={index} className={styles.line} data-sign={line.sign}>
          {`${line.sign} ${line.text}`}
        </span>
      ))}
    </pre>
  );
}
