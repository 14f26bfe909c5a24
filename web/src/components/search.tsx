import { Spotlight, spotlight } from '@mantine/spotlight';
import {
  IconArrowRight,
  IconBolt,
  IconClock,
  IconColumns3,
  IconCpu,
  IconDatabase,
  IconEye,
  IconHexagonLetterH,
  IconKey,
  IconListDetails,
  IconSearch,
  IconSettings,
  IconSitemap,
  IconStar,
  IconTable,
  IconTerminal2,
} from '@tabler/icons-react';
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { useDebouncedValue } from '@mantine/hooks';
import { useState, type KeyboardEvent, type ReactNode } from 'react';
import { useNavigate } from 'react-router';

import { catalogs } from '../api/queries';
import { search } from '../api/search-queries';
import { savedQueries } from '../api/sql-queries';
import type { SearchHit } from '../api/types';
import { notStarred } from '../lib/favourites';
import { paths } from '../lib/paths';
import { describeHit, findPlaces, fits, groupHits, keyOf, pathOf, placesFor, recentTables, type Recent } from '../lib/search';
import { useCatalog } from './catalog';
import { useMe } from './current-user';
import { useFavourites } from './favourites';

const FEW_PLACES = 5;

export const openSearch = (): void => spotlight.open();

/** The text with which the search opens the next time. */
let preset = '';

/** Opens the search with a text, as if somebody had typed it. */
export function searchFor(text: string): void {
  preset = text;
  spotlight.open();
}

/** What is marked is forgotten whenever the list is drawn anew; Enter then opens the first. */
function openFirst(event: KeyboardEvent<HTMLInputElement>): void {
  if (event.key !== 'Enter' || event.nativeEvent.isComposing) return;
  if (document.querySelector('[data-action][data-selected]') === null) document.querySelector<HTMLElement>('[data-action]')?.click();
}

/** Everything by a word of its name: pages at once, and tables, columns, jobs and more from the server. */
export function Search() {
  const [typed, setTyped] = useState('');
  // Nothing is asked of the server before somebody looks for something.
  const [opened, setOpened] = useState(false);
  const text = typed.trim();
  const [asked] = useDebouncedValue(text, 120);
  const { name: catalog } = useCatalog();
  // What was found before stays until there is more: Enter in an empty list would do nothing.
  const { data, error, isFetching } = useQuery({ ...search(asked), enabled: opened && asked !== '', placeholderData: keepPreviousData });
  const hits = text === '' ? [] : (data?.hits ?? []).filter((hit) => fits(hit, text, data?.text ?? ''));
  const groups = groupHits(hits, catalog);
  const places = usePlaces(text, opened);
  const isWaiting = text !== '' && (isFetching || asked !== text);
  const isEmpty = groups.length === 0 && places.length === 0;
  // Pages are there at once: hits that come later appear below them, and move nothing that somebody is about to choose.
  const pages = places.length > 0 && <Places key="pages" places={places} />;
  return (
    <Spotlight.Root
      query={typed}
      onQueryChange={setTyped}
      onSpotlightOpen={() => {
        setOpened(true);
        if (preset !== '') setTyped(preset);
        preset = '';
      }}
      onSpotlightClose={() => setOpened(false)}
      shortcut={null}
      scrollable
      maxHeight={460}
      size="lg"
      attributes={{ content: { 'aria-label': 'search' } }}
    >
      <Spotlight.Search placeholder="Tables, columns, comments, jobs, pages…" aria-label="search" onKeyDown={openFirst} leftSection={<IconSearch size={16} />} />
      <Spotlight.ActionsList>
        {text === '' && <KnownTables />}
        {text !== '' && pages}
        {groups.map((group) => (
          <Spotlight.ActionsGroup key={group.label} label={group.label}>
            {group.hits.map((hit) => (
              <Hit key={keyOf(hit)} hit={hit} catalog={catalog} />
            ))}
          </Spotlight.ActionsGroup>
        ))}
        {text === '' && pages}
        {isEmpty && text !== '' && <Spotlight.Empty>{error !== null && !isWaiting ? error.message : isWaiting ? 'Searching…' : 'Nothing matches. Each word has to begin a word of a name, a column, a comment, an owner or a label.'}</Spotlight.Empty>}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}

function usePlaces(text: string, opened: boolean) {
  const me = useMe();
  const { name: catalog } = useCatalog();
  const { data } = useQuery({ ...catalogs(), enabled: opened });
  const places = placesFor(me, catalog, data?.map(({ name }) => name) ?? []);
  return text === '' ? places : findPlaces(places, text).slice(0, FEW_PLACES);
}

function Places({ places }: { places: ReturnType<typeof usePlaces> }) {
  const navigate = useNavigate();
  return (
    <Spotlight.ActionsGroup label="Pages and actions">
      {places.map(({ label, to }) => (
        <Spotlight.Action key={to + label} label={label} leftSection={<IconArrowRight size={16} />} onClick={() => void navigate(to)} />
      ))}
    </Spotlight.ActionsGroup>
  );
}

/** Starred tables, then those looked at last; read whenever the search opens, which draws this anew. */
function KnownTables() {
  const { name: who } = useMe();
  const { favourites } = useFavourites();
  return (
    <>
      <TableGroup label="Favourites" icon={<IconStar size={16} />} tables={favourites} />
      <TableGroup label="Recently viewed" icon={<IconClock size={16} />} tables={notStarred(recentTables(who), favourites)} />
    </>
  );
}

function TableGroup({ label, icon, tables }: { label: string; icon: ReactNode; tables: readonly Recent[] }) {
  const { name: here } = useCatalog();
  const navigate = useNavigate();
  if (tables.length === 0) return null;
  return (
    <Spotlight.ActionsGroup label={label}>
      {tables.map(({ catalog, table }) => (
        <Spotlight.Action
          key={`${catalog}/${table}`}
          label={table}
          description={catalog === here ? undefined : `in ${catalog}`}
          leftSection={icon}
          onClick={() => void navigate(paths.table(catalog, table))}
        />
      ))}
    </Spotlight.ActionsGroup>
  );
}

function Hit({ hit, catalog }: { hit: SearchHit; catalog: string }) {
  const navigate = useNavigate();
  const client = useQueryClient();
  const open = async () => {
    if (hit.kind !== 'query') return navigate(pathOf(hit, catalog));
    const saved = (await client.query(savedQueries())).find(({ id }) => id === hit.id);
    return navigate(saved === undefined ? pathOf(hit, catalog) : paths.sql(saved.catalog, saved.statement));
  };
  const description = describeHit(hit, catalog);
  return <Spotlight.Action label={hit.name} description={description === '' ? undefined : description} leftSection={iconOf(hit)} onClick={() => void open()} />;
}

function iconOf(hit: SearchHit): ReactNode {
  switch (hit.kind) {
    case 'table':
      if (hit.part !== 'name') return <IconColumns3 size={16} />;
      return hit.detail === 'keyed' ? <IconKey size={16} /> : <IconTable size={16} />;
    case 'view':
      return <IconEye size={16} />;
    case 'hive_table':
      return <IconHexagonLetterH size={16} />;
    case 'namespace':
    case 'catalog':
      return <IconDatabase size={16} />;
    case 'pipeline':
      return <IconSitemap size={16} />;
    case 'query':
      return <IconTerminal2 size={16} />;
    case 'job':
      return <IconListDetails size={16} />;
    case 'group':
      return <IconCpu size={16} />;
    case 'setting':
      return <IconSettings size={16} />;
    default:
      return <IconBolt size={16} />;
  }
}
