import { Button, Popover } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconChevronDown, IconLogout } from '@tabler/icons-react';
import { Link } from 'react-router';

import { signOut } from '../api/session';
import { grantText } from '../lib/access';
import { paths } from '../lib/paths';
import { When } from './figures';
import { useMe } from './current-user';
import styles from './who.module.css';

const SHOWN = 6;

/** Who one is, what one may do in short, and the way out. */
export function Who() {
  const me = useMe();
  const [opened, { toggle, close }] = useDisclosure(false);
  if (!me.access) return null;
  return (
    <Popover position="bottom-end" width={280} opened={opened} onChange={close} trapFocus>
      <Popover.Target>
        <Button variant="subtle" color="gray" rightSection={<IconChevronDown size={13} />} aria-label={`signed in as ${me.name ?? ''}`} className={styles.who ?? ''} onClick={toggle}>
          <span className="truncate">{me.name}</span>
        </Button>
      </Popover.Target>
      <Popover.Dropdown className={styles.facts ?? ''}>
        <div className="wrap-anywhere">
          <b>{me.name}</b> <span className="dim">{me.kind}</span>
        </div>
        <May />
        {me.catalogs !== null && <div className="dim">this token: {me.catalogs.length === 0 ? 'no catalog' : `in ${me.catalogs.join(', ')} only`}</div>}
        {me.expires_at !== null && (
          <div className="dim">
            this token ends <When at={me.expires_at} />
          </div>
        )}
        <div className="row spread" style={{ marginTop: 6 }}>
          <Link to={paths.tokens()} onClick={close}>
            Your tokens
          </Link>
          <Button variant="default" leftSection={<IconLogout size={14} />} onClick={signOut}>
            Sign out
          </Button>
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}

function May() {
  const { admin, grants, roles } = useMe();
  return (
    <>
      {roles.length > 0 && <div className="dim">{roles.length === 1 ? 'role' : 'roles'} {roles.join(', ')}</div>}
      {admin && <div>administers the server</div>}
      {grants.length === 0 && <div>Nothing is granted to you yet.</div>}
      {!admin && (
        <ul className={styles.grants}>
          {grants.slice(0, SHOWN).map((item) => (
            <li key={grantText(item)} className="wrap-anywhere">
              {grantText(item)}
            </li>
          ))}
          {grants.length > SHOWN && <li className="dim">and {grants.length - SHOWN} more</li>}
        </ul>
      )}
    </>
  );
}
