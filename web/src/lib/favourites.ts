/** The tables that somebody has starred, in the order of their stars. */
import type { Recent } from './search';

/** More than a list that one reads; it bounds what the browser keeps. */
export const MOST_FAVOURITES = 100;

export const favouritesKey = (who: string | null): string => `firn.favourites.${who ?? ''}`;

const isSame = (one: Recent, other: Recent): boolean => one.catalog === other.catalog && one.table === other.table;

export function isFavourite(favourites: readonly Recent[], table: Recent): boolean {
  return favourites.some((favourite) => isSame(favourite, table));
}

export function withoutFavourite(favourites: readonly Recent[], table: Recent): Recent[] {
  return favourites.filter((favourite) => !isSame(favourite, table));
}

/** With the star of the table set or taken off; the oldest stars make room for new ones. */
export function toggleFavourite(favourites: readonly Recent[], table: Recent): Recent[] {
  if (isFavourite(favourites, table)) return withoutFavourite(favourites, table);
  return [...favourites, { catalog: table.catalog, table: table.table }].slice(-MOST_FAVOURITES);
}

/** Recently viewed tables that are not starred: a table is listed once. */
export function notStarred(recent: readonly Recent[], favourites: readonly Recent[]): Recent[] {
  return recent.filter((table) => !isFavourite(favourites, table));
}
