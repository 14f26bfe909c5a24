import { ActionIcon, Checkbox, Menu } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconArrowBackUp, IconDots, IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { answered, api } from '../../api/client';
import { catalogs } from '../../api/queries';
import type { Table } from '../../api/types';
import { ActionMenuItem } from '../../components/action-button';
import { ConfirmDialog } from '../../components/confirm-dialog';
import { useWhyNot } from '../../components/current-user';
import { need, onTable } from '../../lib/access';
import { fullName, paths } from '../../lib/paths';
import { firn } from '../../lib/terminal';
import { DowngradeDialog } from './downgrade';

/** The rarely wanted, behind three dots. */
export function DropTable({ table }: { table: Table }) {
  const [asking, { open, close }] = useDisclosure(false);
  const [isGiving, giving] = useDisclosure(false);
  const [purge, setPurge] = useState(false);
  const navigate = useNavigate();
  const { data } = useQuery(catalogs());
  const keeps = data?.find((item) => item.name === table.catalog)?.properties['firn.drop.retention'] ?? '7 d';
  const stores = table.kind === 'keyed' ? ', both its stores included,' : '';
  const name = fullName(table);
  const whyNot = useWhyNot();
  const reason = whyNot(...need(onTable(table.catalog, name), 'drop')) ?? (table.allowed_actions.includes('drop') ? null : (table.unavailable_actions.drop ?? 'It cannot be dropped now.'));
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon variant="default" size={30} aria-label="more actions">
            <IconDots size={15} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {table.hive_name !== null && (
            <ActionMenuItem icon={<IconArrowBackUp size={14} />} disabledReason={reason} onClick={giving.open}>
              Downgrade to Hive
            </ActionMenuItem>
          )}
          <ActionMenuItem icon={<IconTrash size={14} />} disabledReason={reason} onClick={open}>
            Drop table
          </ActionMenuItem>
        </Menu.Dropdown>
      </Menu>
      {table.hive_name !== null && <DowngradeDialog table={table} hive={table.hive_name} opened={isGiving} close={giving.close} />}
      <ConfirmDialog
        title={`Drop ${name}`}
        opened={asking}
        close={close}
        yes="Drop it"
        danger
        command={firn('table drop', [name], { catalog: table.catalog, purge })}
        act={() =>
          answered(
            api.DELETE('/catalogs/{catalog}/tables/{table}', {
              params: { path: { catalog: table.catalog, table: name }, query: { purge } },
            }),
          )
        }
        done={() => void navigate(paths.dropped(table.catalog))}
      >
        <div className="stack">
          <div>
            {keeps === '0'
              ? `${table.catalog} keeps no dropped tables: the table${stores} is gone at once.`
              : `The table${stores} leaves the catalog. For ${keeps} you can undrop it under Tables, Dropped.`}
            {table.hive_name !== null &&
              ` Hive's ${table.hive_name} keeps its files, without the changes that are not published. Downgrade the table instead to keep them.`}
          </div>
          <Checkbox
            label={keeps === '0' ? 'Delete its files' : 'Delete its files after that time'}
            description="Otherwise they stay. Files outside its own location stay in any case."
            checked={purge}
            onChange={(event) => setPurge(event.currentTarget.checked)}
          />
        </div>
      </ConfirmDialog>
    </>
  );
}
