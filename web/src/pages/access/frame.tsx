import type { ReactNode } from 'react';
import { Navigate, NavLink } from 'react-router';

import { useMe } from '../../components/current-user';
import { Empty } from '../../components/notes';
import { Page, Panel } from '../../components/panel';
import { paths } from '../../lib/paths';
import styles from './access.module.css';

const PLACES = [
  { to: paths.people(), label: 'People and services' },
  { to: paths.tokens(), label: 'Tokens' },
  { to: paths.roles(), label: 'Roles' },
  { to: paths.audit(), label: 'Audit' },
];

export function AccessFrame({ actions, children }: { actions?: ReactNode; children: ReactNode }) {
  const { access } = useMe();
  if (!access) return <Off />;
  return (
    <Page title="Access" actions={actions}>
      <nav aria-label="access" className={styles.places}>
        {PLACES.map(({ to, label }) => (
          <NavLink key={to} to={to} className={styles.place}>
            {label}
          </NavLink>
        ))}
      </nav>
      {children}
    </Page>
  );
}

function Off() {
  return (
    <Page title="Access">
      <Panel>
        <Empty title="This server has no access control">
          Everyone who can reach it has all privileges, so it listens on this machine only. Switch access control on with{' '}
          <span className="mono">FIRN_ACCESS__ENABLED=true</span>; the first start prints an administrator's token.
        </Empty>
      </Panel>
    </Page>
  );
}

/** Stands where a list would be that only administrators may ask for. */
export function AdminsOnly({ what }: { what: string }) {
  return (
    <Panel>
      <Empty title={`Only administrators see ${what}`}>This needs the privilege “grant” on the server. Ask an administrator for it, or for a role.</Empty>
    </Panel>
  );
}

export function ToAccess() {
  const { admin, access } = useMe();
  if (!access) return <Off />;
  return <Navigate to={admin ? paths.people() : paths.tokens()} replace />;
}
