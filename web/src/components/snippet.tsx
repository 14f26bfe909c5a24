import { ActionIcon, CopyButton, Tooltip } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';
import { Fragment } from 'react';

import styles from './components.module.css';

/** Text to be copied into a terminal or a program. */
export function Snippet({ code, label, wraps = false }: { code: string; label: string; wraps?: boolean }) {
  return (
    <div className={styles.snippet} data-wraps={wraps}>
      {/* Scrolls sideways: a keyboard must be able to reach it. */}
      <pre tabIndex={0} aria-label={label}>
        <code>{wraps ? <Words text={code} /> : code}</code>
      </pre>
      <div className={styles.snippetCopy}>
        <Copy text={code} what={label} />
      </div>
    </div>
  );
}

/** Lines end between words only: a browser would also end one behind the dashes of an option. */
function Words({ text }: { text: string }) {
  return text.split(' ').map((word, index) => (
    <Fragment key={index}>
      {index > 0 && ' '}
      <span className={styles.word}>{word}</span>
    </Fragment>
  ));
}

export function Copy({ text, what }: { text: string; what: string }) {
  return (
    <CopyButton value={text} timeout={1500}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? 'copied' : `copy ${what}`}>
          <ActionIcon size="sm" onClick={copy} aria-label={`copy ${what}`}>
            {copied ? <IconCheck size={14} className="ok" /> : <IconCopy size={14} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}
