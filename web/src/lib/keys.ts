/** The primary keys chosen for several tables, as they stand in an address: `sales.orders=id,day;sales.items=id`. */
export type Keys = Record<string, string[]>;

export function keysFrom(text: string | undefined): Keys {
  const pairs = (text ?? '').split(';').filter((part) => part.includes('='));
  return Object.fromEntries(
    pairs.map((part) => {
      const [table = '', columns = ''] = part.split('=', 2);
      return [decodeURIComponent(table), columns.split(',').filter(Boolean).map(decodeURIComponent)];
    }),
  );
}

/** Tables without a key are left out. */
export function keysText(keys: Keys): string {
  return Object.entries(keys)
    .filter(([, columns]) => columns.length > 0)
    .map(([table, columns]) => `${encodeURIComponent(table)}=${columns.map(encodeURIComponent).join(',')}`)
    .join(';');
}
