import { Button } from '@mantine/core';
import { IconArrowDown, IconArrowUp } from '@tabler/icons-react';
import { useMemo, useState } from 'react';

import { count } from '../lib/format';
import { isNumber, sortRows, type ResultColumn, type ResultRow } from '../lib/results';
import styles from './result-table.module.css';

const STEP = 200;
const LONGEST = 300;

interface ResultTableProps {
  name: string;
  columns: readonly ResultColumn[];
  rows: readonly ResultRow[];
  /** Brings the rows that are not here yet, before they are ordered. */
  loadAll?: () => void;
}

/** Rows of a result: columns with their types, ordered by a click. */
export function ResultTable({ name, columns, rows, loadAll }: ResultTableProps) {
  const [order, setOrder] = useState<{ by: number; descending: boolean } | null>(null);
  const [shown, setShown] = useState(STEP);
  const sorted = useMemo(() => (order === null ? rows : sortRows(rows, columns, order.by, order.descending)), [rows, columns, order]);
  const sortBy = (by: number) => {
    loadAll?.();
    setOrder((old) => (old?.by !== by ? { by, descending: false } : old.descending ? null : { by, descending: true }));
  };
  return (
    <div className={styles.scroll} tabIndex={0} role="group" aria-label={`${name}, scrolls`}>
      <table className={styles.table} aria-label={name}>
        <thead>
          <tr>
            {columns.map((column, index) => (
              <th
                key={index}
                scope="col"
                className={isNumber(column) ? styles.right : undefined}
                aria-sort={order?.by === index ? (order.descending ? 'descending' : 'ascending') : undefined}
              >
                <button type="button" onClick={() => sortBy(index)} title={`order by ${column.name}`}>
                  {column.name} {order?.by === index && (order.descending ? <IconArrowDown size={12} aria-hidden /> : <IconArrowUp size={12} aria-hidden />)}
                  <span className={styles.type}>{column.type.toLowerCase()}</span>
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, shown).map((row, line) => (
            <tr key={line}>
              {columns.map((column, index) => (
                <Cell key={index} value={row[index] ?? null} right={isNumber(column)} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {shown < rows.length && (
        <div className={styles.more}>
          <Button variant="subtle" size="compact-sm" onClick={() => setShown(shown + STEP * 5)}>
            Show more of {count(rows.length)} rows
          </Button>
        </div>
      )}
    </div>
  );
}

function Cell({ value, right }: { value: string | null; right: boolean }) {
  if (value === null) return <td className={`${styles.null} ${right ? styles.right : ''}`}>null</td>;
  const cut = value.length > LONGEST ? `${value.slice(0, LONGEST)}…` : value;
  return (
    <td className={`mono ${right ? styles.right : ''}`} title={value.length > 30 ? value.slice(0, 2_000) : undefined}>
      {cut}
    </td>
  );
}
