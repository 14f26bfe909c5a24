import { ActionIcon, Tooltip } from '@mantine/core';
import { useLocalStorage } from '@mantine/hooks';
import { IconClock, IconStar, IconStarFilled } from '@tabler/icons-react';
import { useCallback, type ReactNode } from 'react';
import { Link } from 'react-router';

import { favouritesKey, isFavourite, notStarred, toggleFavourite, withoutFavourite } from '../lib/favourites';
import { paths } from '../lib/paths';
import { readTables, recentTables, type Recent } from '../lib/search';
import { useMe } from './current-user';
import { Panel } from './panel';
import styles from './favourites.module.css';

/** The starred tables of this person in this browser, as all open pages of it see them. */
export function useFavourites() {
  const { name: who } = useMe();
  const [favourites, set] = useLocalStorage<Recent[]>({
    key: favouritesKey(who),
    defaultValue: [],
    getInitialValueInEffect: false,
    deserialize: readTables,
  });
  const remove = useCallback((table: Recent) => set((before) => withoutFavourite(before, table)), [set]);
  const toggle = useCallback((table: Recent) => set((before) => toggleFavourite(before, table)), [set]);
  return { favourites, toggle, remove };
}

/** Stars a table, or takes the star off. */
export function Star({ catalog, table }: Recent) {
  const { favourites, toggle } = useFavourites();
  const starred = isFavourite(favourites, { catalog, table });
  const label = starred ? 'remove from favourites' : 'add to favourites';
  return (
    <Tooltip label={label}>
      <ActionIcon size="sm" aria-label={label} aria-pressed={starred} onClick={() => toggle({ catalog, table })}>
        {starred ? <IconStarFilled size={15} className={styles.starred} /> : <IconStar size={15} />}
      </ActionIcon>
    </Tooltip>
  );
}

/** Starred tables and those that were looked at last, as links; nothing before there are some. */
export function YourTables({ catalog: here }: { catalog: string }) {
  const { name: who } = useMe();
  const { favourites } = useFavourites();
  const recent = notStarred(recentTables(who), favourites);
  if (favourites.length === 0 && recent.length === 0) return null;
  return (
    <Panel title="Your tables">
      <div className="stack">
        <Links name="Favourites" icon={<IconStarFilled size={13} className={styles.starred} aria-hidden />} tables={favourites} here={here} />
        <Links name="Recently viewed" icon={<IconClock size={13} aria-hidden />} tables={recent} here={here} />
      </div>
    </Panel>
  );
}

interface LinksProps {
  name: string;
  icon: ReactNode;
  tables: readonly Recent[];
  here: string;
}

function Links({ name, icon, tables, here }: LinksProps) {
  if (tables.length === 0) return null;
  return (
    <nav aria-label={name.toLowerCase()} className={styles.links}>
      <span className={styles.name}>
        {icon} {name}
      </span>
      {tables.map(({ catalog, table }) => (
        <Link key={`${catalog}/${table}`} to={paths.table(catalog, table)} className="mono wrap-anywhere">
          {catalog === here ? table : `${catalog}.${table}`}
        </Link>
      ))}
    </nav>
  );
}
