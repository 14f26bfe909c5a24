import { Button, CopyButton, Modal } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';

import { Note } from '../../components/notes';
import { Snippet } from '../../components/snippet';

export interface Shown {
  title: string;
  secret: string;
  says: string;
}

/** A secret that is shown this once: only the button closes it, not a click beside it. */
export function ShowOnce({ shown, close }: { shown: Shown | undefined; close: () => void }) {
  return (
    <Modal opened={shown !== undefined} onClose={close} title={shown?.title} size="lg" withCloseButton={false} closeOnClickOutside={false} closeOnEscape={false}>
      {shown !== undefined && (
        <div className="stack">
          <Note tone="warn" title="It is shown this once">
            {shown.says}
          </Note>
          <Snippet label="secret" code={shown.secret} />
          <div className="row" style={{ justifyContent: 'flex-end' }}>
            <CopyButton value={shown.secret} timeout={3000}>
              {({ copied, copy }) => (
                <Button variant="default" leftSection={copied ? <IconCheck size={14} className="ok" /> : <IconCopy size={14} />} onClick={copy} data-autofocus>
                  {copied ? 'Copied' : 'Copy'}
                </Button>
              )}
            </CopyButton>
            <Button onClick={close}>I have copied it</Button>
          </div>
        </div>
      )}
    </Modal>
  );
}
