import { IconDatabase } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { namespaces } from '../api/queries';
import { split } from '../lib/paths';
import styles from './databases.module.css';

interface DatabasesProps {
  catalog: string;
  chosen: string | undefined;
  /** What the first entry is called, which stands for all of them. */
  all: string;
  to: (database?: string) => string;
}

/** The databases of a catalog as a tree of links. */
export function Databases({ catalog, chosen, all, to }: DatabasesProps) {
  const { data } = useQuery(namespaces(catalog));
  return (
    <nav aria-label="databases" className={styles.tree}>
      <Link to={to()} className={styles.node} aria-current={chosen === undefined ? 'true' : undefined}>
        {all}
      </Link>
      {data?.items.map((item) => (
        <Branch key={item.name} catalog={catalog} name={item.name} chosen={chosen} to={to} depth={0} />
      ))}
    </nav>
  );
}

interface BranchProps extends Omit<DatabasesProps, 'all'> {
  name: string;
  depth: number;
}

function Branch({ name, depth, ...tree }: BranchProps) {
  const { chosen, to } = tree;
  const open = chosen === name || chosen?.startsWith(`${name}.`) === true;
  return (
    <>
      <Link to={to(name)} className={styles.node} style={{ paddingLeft: 10 + depth * 14 }} aria-current={chosen === name ? 'true' : undefined}>
        <IconDatabase size={14} stroke={1.6} aria-hidden className="dim" />
        <span className="mono truncate" title={name}>
          {split(name).name}
        </span>
      </Link>
      {open && <Children {...tree} name={name} depth={depth + 1} />}
    </>
  );
}

function Children({ name, ...rest }: BranchProps) {
  const { data } = useQuery(namespaces(rest.catalog, name));
  return data?.items.map((item) => <Branch key={item.name} {...rest} name={item.name} />);
}
