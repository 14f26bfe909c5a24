import { Link } from 'react-router';

import { paths } from '../../lib/paths';
import styles from './access.module.css';

/** Short names beside each other. */
export function Tags({ names, none = 'none' }: { names: readonly string[]; none?: string }) {
  if (names.length === 0) return <span className="dim">{none}</span>;
  return (
    <span className={styles.tags}>
      {names.map((name) => (
        <span key={name} className={`${styles.tag ?? ''} mono`}>
          {name}
        </span>
      ))}
    </span>
  );
}

/** Roles as links; one that the issuer gives says so. */
export function RoleTags({ roles }: { roles: readonly { role: string; by_claim: boolean }[] }) {
  if (roles.length === 0) return <span className="dim">none</span>;
  return (
    <span className={styles.tags}>
      {roles.map(({ role, by_claim }) => (
        <Link key={role} to={paths.role(role)} className={`${styles.tag ?? ''} mono`} title={by_claim ? 'given by the issuer' : undefined}>
          {role}
          {by_claim && <span className="dim"> issuer</span>}
        </Link>
      ))}
    </span>
  );
}
