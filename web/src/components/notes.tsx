import { IconAlertTriangleFilled, IconCircleXFilled, IconInfoCircle } from '@tabler/icons-react';
import type { ReactNode } from 'react';

import { asProblem } from '../api/problem';
import { pieces } from '../lib/words';
import styles from './components.module.css';

const LOOKS = { info: IconInfoCircle, warn: IconAlertTriangleFilled, bad: IconCircleXFilled };

interface NoteProps {
  tone?: keyof typeof LOOKS;
  title: ReactNode;
  children?: ReactNode;
  action?: ReactNode;
}

/** Something to be read: what, and what to do about it. */
export function Note({ tone = 'info', title, children, action }: NoteProps) {
  const Shape = LOOKS[tone];
  return (
    <div className={styles.note} data-tone={tone} role={tone === 'bad' ? 'alert' : undefined}>
      <Shape size={17} aria-hidden className={tone === 'info' ? 'accent' : tone} style={{ marginTop: 1, flexShrink: 0 }} />
      <div className="grow">
        <div className={`${styles.noteTitle} wrap-anywhere`}>{title}</div>
        {children !== undefined && <div className={styles.noteText}>{children}</div>}
      </div>
      {action}
    </div>
  );
}

/** A sentence of the server's; commands and settings in it look like what they are. */
export function Words({ children }: { children: string }) {
  return pieces(children).map(({ text, code }, index) =>
    code ? (
      <code key={index} className="mono">
        {text}
      </code>
    ) : (
      text
    ),
  );
}

/** A refusal or a failure, in the server's words. */
export function ProblemNote({ error, what }: { error: unknown; what?: string }) {
  const problem = asProblem(error);
  return (
    <Note tone={problem.passes ? 'warn' : 'bad'} title={what === undefined ? problem.message : `${what}: ${problem.message}`}>
      {problem.hint !== null && <Words>{problem.hint}</Words>}
      {problem.requestId !== null && problem.code === 'internal' && (
        <div className="dim">
          request <span className="mono">{problem.requestId}</span>
        </div>
      )}
    </Note>
  );
}

/** Nothing is here; what would bring something here. */
export function Empty({ title, children, action }: { title: ReactNode; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className={styles.empty}>
      <svg width="64" height="30" viewBox="0 0 64 30" aria-hidden className={styles.drift}>
        <path d="M2 26 18 9l8 8 12-14 24 23" />
        <path d="M10 26h46" />
      </svg>
      <div className={styles.emptyTitle}>{title}</div>
      {children !== undefined && <div className={styles.emptyText}>{children}</div>}
      {action}
    </div>
  );
}
