import { ActionIcon, Menu } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconDots, IconTrash } from '@tabler/icons-react';
import { useNavigate } from 'react-router';

import { answered, api } from '../../api/client';
import type { Table } from '../../api/types';
import { Ask } from '../../components/ask';
import { fullName, paths } from '../../lib/paths';

/** The rarely wanted, behind three dots. */
export function DropTable({ table }: { table: Table }) {
  const [asking, { open, close }] = useDisclosure(false);
  const navigate = useNavigate();
  const name = fullName(table);
  const reason = table.can.includes('drop') ? null : (table.cannot.drop ?? 'It cannot be dropped now.');
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon variant="default" size={30} aria-label="more actions">
            <IconDots size={15} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<IconTrash size={14} />} disabled={reason !== null} onClick={open}>
            Drop table{reason === null ? '' : `: ${reason}`}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Ask
        title={`Drop ${name}`}
        opened={asking}
        close={close}
        yes="Drop it"
        danger
        act={() => answered(api.DELETE('/catalogs/{catalog}/tables/{table}', { params: { path: { catalog: table.catalog, table: name } } }))}
        done={() => void navigate(paths.tables(table.catalog))}
      >
        The catalog forgets the table{table.kind === 'keyed' ? ', both its stores included' : ''}. Its files stay where they are.
        {table.hive_name !== null && ` Hive's ${table.hive_name} goes on with the files it has.`}
      </Ask>
    </>
  );
}
