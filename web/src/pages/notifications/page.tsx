import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';

import { ActionButton } from '../../components/action-button';
import { useWhyNot } from '../../components/current-user';
import { Empty } from '../../components/notes';
import { Page, Panel } from '../../components/panel';
import { CreateRule } from './create-rule';
import { History } from './history';
import { NEEDS } from './needs';
import { Rules } from './rules';

/** Who is told about problems, and what was sent. */
export function NotificationsPage() {
  const maySee = useWhyNot()(...NEEDS) === null;
  const [creating, { open, close }] = useDisclosure(false);
  return (
    <Page
      title="Notifications"
      sub="Rules report problems by webhook, Slack or mail, and send table events as CloudEvents."
      actions={
        <ActionButton leftSection={<IconPlus size={14} />} needs={NEEDS} onClick={open}>
          Create rule
        </ActionButton>
      }
    >
      {maySee ? (
        <>
          <Rules />
          <History />
        </>
      ) : (
        <Panel>
          <Empty title="Only administrators see notifications">They name tables of all catalogs.</Empty>
        </Panel>
      )}
      {creating && <CreateRule close={close} />}
    </Page>
  );
}
