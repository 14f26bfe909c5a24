/** The key of one table, and the column that says which of two changes is newer; none where it is empty. */
export interface Key {
  columns: string[];
  sequence: string;
}

/** The keys chosen for several tables, as they stand in an address: `sales.orders=id,day@changed;sales.items=id`. */
export type Keys = Record<string, Key>;

export const NO_KEY: Key = { columns: [], sequence: '' };

export function keysFrom(text: string | undefined): Keys {
  const pairs = (text ?? '').split(';').filter((part) => part.includes('='));
  return Object.fromEntries(
    pairs.map((part) => {
      const [table = '', key = ''] = part.split('=', 2);
      const [columns = '', sequence = ''] = key.split('@', 2);
      return [decodeURIComponent(table), { columns: columns.split(',').filter(Boolean).map(decodeURIComponent), sequence: decodeURIComponent(sequence) }];
    }),
  );
}

/** Tables without a key are left out. */
export function keysText(keys: Keys): string {
  return Object.entries(keys)
    .filter(([, key]) => key.columns.length > 0)
    .map(([table, { columns, sequence }]) => {
      const order = sequence === '' ? '' : `@${encodeURIComponent(sequence)}`;
      return `${encodeURIComponent(table)}=${columns.map(encodeURIComponent).join(',')}${order}`;
    })
    .join(';');
}

/** With other columns; one of the key cannot be its sequence field as well, and without a key there is no order. */
export function withColumns(key: Key, columns: string[]): Key {
  return { columns, sequence: columns.length === 0 || columns.includes(key.sequence) ? '' : key.sequence };
}
