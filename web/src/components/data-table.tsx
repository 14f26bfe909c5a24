import { ActionIcon, Button, Checkbox, Menu, Skeleton, Tooltip } from '@mantine/core';
import { useLocalStorage } from '@mantine/hooks';
import { IconArrowDown, IconArrowUp, IconColumns3 } from '@tabler/icons-react';
import { useLayoutEffect, useRef, useState, type KeyboardEvent, type MouseEvent, type ReactNode } from 'react';
import { Link, useNavigate } from 'react-router';

import { Panel } from './panel';
import { ProblemNote } from './notes';
import styles from './data-table.module.css';

export interface Column<Row> {
  key: string;
  title: string;
  cell: (row: Row) => ReactNode;
  right?: boolean;
  /** Takes the width that others leave. */
  wide?: boolean;
  /** Starts hidden; the column choice brings it. */
  extra?: boolean;
  help?: string;
  /** What the server calls the order by this column; its heading then sorts. */
  sort?: string;
}

interface DataTableProps<Row> {
  /** Names the table for people who hear it, and for the remembered choice of columns. */
  name: string;
  columns: Column<Row>[];
  rows: readonly Row[] | undefined;
  id: (row: Row) => string;
  link?: (row: Row) => string | undefined;
  empty: ReactNode;
  error?: unknown;
  title?: ReactNode;
  aside?: ReactNode;
  more?: { has: boolean; loading: boolean; load: () => void };
  select?: { chosen: ReadonlySet<string>; set: (chosen: Set<string>) => void; can: (row: Row) => boolean };
  /** The order that the server gives the rows in. */
  sorted?: { by: string; set: (by: string) => void };
  /** Without frame and column choice: a table inside something else. */
  plain?: boolean;
}

const SKELETONS = [0, 1, 2, 3, 4];

/** A list: the first column opens the row, arrows move between rows, the reader chooses the columns. */
export function DataTable<Row>(props: DataTableProps<Row>) {
  const { name, columns, rows, error, title, aside, plain = false } = props;
  const [shown, setShown] = useLocalStorage<Record<string, boolean>>({
    key: `firn.columns.${name}`,
    defaultValue: {},
    getInitialValueInEffect: false,
  });
  const visible = columns.filter((column) => shown[column.key] ?? column.extra !== true);
  const problem = error !== undefined && error !== null && rows === undefined;
  const body = problem ? (
    <div style={{ padding: 12 }}>
      <ProblemNote error={error} what={`cannot list ${name}`} />
    </div>
  ) : (
    <Grid {...props} columns={visible} />
  );
  if (plain) return <div className={styles.scroll}>{body}</div>;
  return (
    <Panel
      flush
      title={title ?? <Shown rows={rows} more={props.more?.has === true} />}
      aside={
        <div className="row">
          {aside}
          <ColumnChoice columns={columns} shown={shown} setShown={setShown} />
        </div>
      }
    >
      {body}
    </Panel>
  );
}

/** Where the rows do not fit beside each other, each becomes a block: its first column, then names and values. */
function useBlocks(columns: string) {
  const area = useRef<HTMLDivElement>(null);
  const [needed, setNeeded] = useState<{ columns: string; width: number } | null>(null);
  const [width, setWidth] = useState(Infinity);
  const asBlocks = needed !== null && needed.columns === columns && width < needed.width;
  useLayoutEffect(() => {
    const element = area.current;
    const table = element?.firstElementChild;
    if (element === null || table === null || table === undefined) return;
    const measure = () => {
      setWidth(element.clientWidth);
      // As blocks it fits any width: what it needs as a table is known from before.
      if (!asBlocks && table.scrollWidth > element.clientWidth + 1) setNeeded({ columns, width: table.scrollWidth });
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    observer.observe(table);
    measure();
    return () => observer.disconnect();
  }, [asBlocks, columns]);
  return { area, asBlocks };
}

/** What can be done with a row stays in sight where the others have to be scrolled. */
function classOf<Row>({ right, title }: Column<Row>): string {
  return [right && styles.right, title === '' && right && styles.acts].filter(Boolean).join(' ');
}

/** How many are listed; a heading where nothing better is known. */
function Shown({ rows, more }: { rows: readonly unknown[] | undefined; more: boolean }) {
  if (rows === undefined) return <span className="dim">…</span>;
  return <span className={styles.shown}>{more ? `the first ${rows.length}` : rows.length === 0 ? 'nothing' : `${rows.length} listed`}</span>;
}

function Grid<Row>({ name, columns, rows, id, link, empty, more, select, sorted }: DataTableProps<Row>) {
  const navigate = useNavigate();
  const openRow = (event: MouseEvent<HTMLTableRowElement>, to: string | undefined) => {
    const target = event.target as HTMLElement;
    if (!event.currentTarget.contains(target)) return; // in a dialog that a cell has opened: React's events leave it that way
    if (to === undefined || target.closest('a, button, input, label') !== null) return;
    if (window.getSelection()?.toString()) return;
    void navigate(to);
  };
  const { area, asBlocks } = useBlocks(columns.map(({ key }) => key).join());
  if (rows?.length === 0) return empty;
  // Blocks are no table to a browser any more: the roles say that they still are one.
  return (
    <div ref={area}>
      <table className={styles.table} aria-label={name} role="table" data-blocks={asBlocks}>
        <thead role="rowgroup">
          <tr role="row">
            {select && <SelectAll rows={rows ?? []} id={id} select={select} />}
            {columns.map((column) => (
              <Head key={column.key} column={column} sorted={sorted} />
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup" onKeyDown={moveFocus}>
          {rows === undefined &&
            SKELETONS.map((line) => (
              <tr key={line} aria-hidden>
                {select && <td />}
                {columns.map((column) => (
                  <td key={column.key}>
                    <Skeleton height={11} my={4} width={column.wide ? '55%' : 48} ml={column.right ? 'auto' : 0} />
                  </td>
                ))}
              </tr>
            ))}
          {rows?.map((row) => {
            const to = link?.(row);
            return (
              <tr key={id(row)} role="row" data-link={to !== undefined} onClick={(event) => openRow(event, to)}>
                {select && <SelectOne row={row} id={id(row)} select={select} />}
                {columns.map((column, index) => (
                  <td key={column.key} role="cell" className={`${classOf(column)} ${index === 0 ? styles.first : ''}`} data-title={index === 0 ? undefined : column.title}>
                    {index === 0 && to !== undefined ? (
                      <Link to={to} className={styles.open} data-row-link>
                        {column.cell(row)}
                      </Link>
                    ) : (
                      column.cell(row)
                    )}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
      {more?.has && (
        <div className={styles.more}>
          <Button variant="subtle" size="compact-sm" loading={more.loading} onClick={more.load}>
            Show more
          </Button>
        </div>
      )}
    </div>
  );
}

function Head<Row>({ column, sorted }: { column: Column<Row>; sorted: DataTableProps<Row>['sorted'] }) {
  const { title, key, sort } = column;
  const isSorted = sorted !== undefined && sort === sorted.by;
  const down = sort !== 'name';
  return (
    <th
      scope="col"
      role="columnheader"
      className={classOf(column)}
      data-sorts={sorted !== undefined && sort !== undefined}
      style={column.wide ? { width: '100%' } : undefined}
      title={column.help}
      aria-sort={isSorted ? (down ? 'descending' : 'ascending') : undefined}
    >
      {title === '' && <span className="hidden">{key}</span>}
      {sorted !== undefined && sort !== undefined ? (
        <button type="button" className={styles.sort} onClick={() => sorted.set(sort)}>
          {title}
          {isSorted && (down ? <IconArrowDown size={12} aria-hidden /> : <IconArrowUp size={12} aria-hidden />)}
        </button>
      ) : (
        title
      )}
    </th>
  );
}

type Select<Row> = NonNullable<DataTableProps<Row>['select']>;

function SelectAll<Row>({ rows, id, select }: { rows: readonly Row[]; id: (row: Row) => string; select: Select<Row> }) {
  const possible = rows.filter(select.can).map(id);
  const all = possible.length > 0 && possible.every((item) => select.chosen.has(item));
  return (
    <th scope="col" role="columnheader" className={styles.check} data-sorts>
      <Checkbox
        size="xs"
        aria-label="select all that can be selected"
        disabled={possible.length === 0}
        checked={all}
        indeterminate={!all && select.chosen.size > 0}
        onChange={() => select.set(all ? new Set() : new Set(possible))}
      />
    </th>
  );
}

function SelectOne<Row>({ row, id, select }: { row: Row; id: string; select: Select<Row> }) {
  const toggle = () => {
    const next = new Set(select.chosen);
    if (!next.delete(id)) next.add(id);
    select.set(next);
  };
  return (
    <td role="cell" className={styles.check}>
      {select.can(row) && <Checkbox size="xs" aria-label={`select ${id}`} checked={select.chosen.has(id)} onChange={toggle} />}
    </td>
  );
}

/** Arrow keys move between the rows' links, Home and End to the ends. */
function moveFocus(event: KeyboardEvent<HTMLTableSectionElement>): void {
  if (!event.currentTarget.contains(event.target as HTMLElement)) return; // in a dialog, see openRow
  const links = [...event.currentTarget.querySelectorAll<HTMLElement>('[data-row-link]')];
  const here = links.findIndex((link) => link === document.activeElement);
  if (here < 0) return;
  const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: links.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  links[to]?.focus();
}

interface ColumnChoiceProps<Row> {
  columns: Column<Row>[];
  shown: Record<string, boolean>;
  setShown: (shown: Record<string, boolean>) => void;
}

function ColumnChoice<Row>({ columns, shown, setShown }: ColumnChoiceProps<Row>) {
  return (
    <Menu closeOnItemClick={false} position="bottom-end" withinPortal>
      <Menu.Target>
        <Tooltip label="columns">
          <ActionIcon size="sm" aria-label="choose columns">
            <IconColumns3 size={15} />
          </ActionIcon>
        </Tooltip>
      </Menu.Target>
      <Menu.Dropdown>
        {columns.slice(1).map((column) => {
          if (column.title === '') return null;
          const on = shown[column.key] ?? column.extra !== true;
          return (
            <Menu.Item
              key={column.key}
              role="menuitemcheckbox"
              aria-checked={on}
              onClick={() => setShown({ ...shown, [column.key]: !on })}
              leftSection={<Checkbox.Indicator size="xs" checked={on} />}
            >
              {column.title}
            </Menu.Item>
          );
        })}
      </Menu.Dropdown>
    </Menu>
  );
}
