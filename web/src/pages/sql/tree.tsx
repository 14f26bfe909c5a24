import { TextInput } from '@mantine/core';
import { IconChevronDown, IconChevronRight, IconKey, IconSearch, IconTable } from '@tabler/icons-react';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { table as tableQuery, tables } from '../../api/queries';
import { Empty, ProblemNote } from '../../components/notes';
import { fullName } from '../../lib/paths';
import styles from './sql.module.css';

/** The tables of the catalog with their columns; a click on a name writes it into the statement. */
export function Tree({ catalog, insert }: { catalog: string; insert: (text: string) => void }) {
  const [typed, setTyped] = useState('');
  const { data, error, hasNextPage } = useInfiniteQuery(tables(catalog, typed.trim() === '' ? {} : { search: typed.trim() }));
  const rows = data?.pages.flatMap((page) => page.items).filter((row) => row.kind !== 'view') ?? [];
  return (
    <>
      <div style={{ padding: 6 }}>
        <TextInput placeholder="Find a table" aria-label="find a table" value={typed} onChange={(event) => setTyped(event.currentTarget.value)} leftSection={<IconSearch size={14} />} />
      </div>
      {error !== null && <ProblemNote error={error} what="cannot list tables" />}
      {data !== undefined && rows.length === 0 && <Empty title="No table is named like that" />}
      <ul className={styles.list} aria-label="tables">
        {rows.map((row) => (
          <Node key={fullName(row)} catalog={catalog} name={fullName(row)} keyed={row.kind === 'keyed'} insert={insert} />
        ))}
      </ul>
      {hasNextPage && <div className={styles.small} style={{ padding: '0 10px 8px' }}>More tables: type a part of a name.</div>}
    </>
  );
}

function Node({ catalog, name, keyed, insert }: { catalog: string; name: string; keyed: boolean; insert: (text: string) => void }) {
  const [opened, setOpened] = useState(false);
  const { data } = useQuery({ ...tableQuery(catalog, name), enabled: opened });
  const Shape = keyed ? IconKey : IconTable;
  return (
    <li>
      <button type="button" className={styles.node} aria-expanded={opened} onClick={() => setOpened(!opened)} onDoubleClick={() => insert(name)}>
        {opened ? <IconChevronDown size={13} aria-hidden /> : <IconChevronRight size={13} aria-hidden />}
        <Shape size={14} aria-hidden />
        <span className="mono">{name}</span>
      </button>
      {opened && (
        <ul className={styles.columns} aria-label={`columns of ${name}`}>
          <li>
            <button type="button" className={styles.node} onClick={() => insert(name)}>
              <span className="dim">insert the name</span>
            </button>
          </li>
          {data?.columns.map((column) => (
            <li key={column.id}>
              <button type="button" className={styles.node} onClick={() => insert(column.name)}>
                <span className="mono grow">{column.name}</span>
                <span className="dim">{column.type}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}
