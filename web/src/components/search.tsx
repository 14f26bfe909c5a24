import { Spotlight, spotlight } from '@mantine/spotlight';
import { IconHexagonLetterH, IconKey, IconSearch, IconTable } from '@tabler/icons-react';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { useDebouncedValue } from '@mantine/hooks';
import { useState, type KeyboardEvent } from 'react';
import { useNavigate } from 'react-router';

import { hiveTables } from '../api/hive-queries';
import { tables } from '../api/queries';
import { partsOf } from '../lib/names';
import { fullName, paths } from '../lib/paths';
import { useCatalog } from './catalog';

const HITS = 20;

export const openSearch = (): void => spotlight.open();

/** What is marked is forgotten whenever the list is drawn anew; Enter then opens the first. */
function openFirst(event: KeyboardEvent<HTMLInputElement>): void {
  if (event.key !== 'Enter' || event.nativeEvent.isComposing) return;
  if (document.querySelector('[data-action][data-selected]') === null) document.querySelector<HTMLElement>('[data-action]')?.click();
}

/** Tables and Hive tables by a part of their name. */
export function Search() {
  const [typed, setTyped] = useState('');
  // Nothing is asked of the server before somebody looks for something.
  const [opened, setOpened] = useState(false);
  const [search] = useDebouncedValue(typed.trim(), 150);
  const { name: catalog } = useCatalog();
  const navigate = useNavigate();
  // What was found before stays until there is more: Enter in an empty list would do nothing.
  const asking = { enabled: opened, placeholderData: keepPreviousData };
  const found = useInfiniteQuery({ ...tables(catalog, search === '' ? {} : { search }, HITS), ...asking });
  const inHive = useInfiniteQuery({ ...hiveTables(catalog, search === '' ? {} : { search }, 'name', HITS), retry: false, ...asking });
  // What the server found belongs to an earlier keystroke: Enter must never open what no longer fits.
  const fits = (name: string) => name.toLowerCase().includes(typed.trim().toLowerCase());
  const own = (found.data?.pages[0]?.items ?? []).filter(
    (row) => fits(fullName(row)) || fits([...partsOf(row.namespace), row.name].join('.')),
  );
  const hive = (inHive.data?.pages[0]?.items ?? []).filter(
    (row) => row.state !== 'upgraded' && fits(`${row.database}.${row.name}`),
  );
  return (
    <Spotlight.Root query={typed} onQueryChange={setTyped} onSpotlightOpen={() => setOpened(true)} onSpotlightClose={() => setOpened(false)} shortcut={null} scrollable maxHeight={420}>
      <Spotlight.Search placeholder={`Tables of ${catalog}`} aria-label="search tables" onKeyDown={openFirst} leftSection={<IconSearch size={16} />} />
      <Spotlight.ActionsList>
        {own.length + hive.length === 0 && <Spotlight.Empty>No table of {catalog} is named like that.</Spotlight.Empty>}
        {own.length > 0 && (
          <Spotlight.ActionsGroup label="Tables">
            {own.map((row) => (
              <Spotlight.Action
                key={fullName(row)}
                label={fullName(row)}
                description={row.kind}
                leftSection={row.kind === 'keyed' ? <IconKey size={16} /> : <IconTable size={16} />}
                onClick={() => void navigate(paths.table(catalog, fullName(row)))}
              />
            ))}
          </Spotlight.ActionsGroup>
        )}
        {hive.length > 0 && (
          <Spotlight.ActionsGroup label="Hive">
            {hive.map((row) => (
              <Spotlight.Action
                key={`${row.database}.${row.name}`}
                label={`${row.database}.${row.name}`}
                description={row.format}
                leftSection={<IconHexagonLetterH size={16} />}
                onClick={() => void navigate(paths.upgrade(catalog, `${row.database}.${row.name}`))}
              />
            ))}
          </Spotlight.ActionsGroup>
        )}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}
