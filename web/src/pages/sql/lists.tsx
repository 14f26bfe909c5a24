import { ActionIcon, Tooltip } from '@mantine/core';
import { IconTrash, IconUsers } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';

import { answered, api } from '../../api/client';
import { savedQueries, sqlHistory } from '../../api/sql-queries';
import type { SavedQuery, SqlQuery } from '../../api/types';
import { useDo } from '../../components/confirm-dialog';
import { When } from '../../components/figures';
import { Empty, ProblemNote } from '../../components/notes';
import { count } from '../../lib/format';
import styles from './sql.module.css';

/** What the caller has run, newest first. */
export function History({ open }: { open: (query: SqlQuery) => void }) {
  const { data, error } = useQuery(sqlHistory());
  if (error !== null) return <ProblemNote error={error} what="cannot list queries" />;
  if (data?.items.length === 0) return <Empty title="Nothing has been run yet" />;
  return (
    <ul className={styles.list} aria-label="history">
      {data?.items.map((query) => (
        <li key={query.id} className={styles.item}>
          <button type="button" onClick={() => open(query)}>
            <span className={`mono ${styles.line}`}>{query.statement}</span>
            <span className={styles.small}>
              {query.state === 'done' ? (query.explain ? 'plan' : `${count(query.rows)} rows`) : query.state} · {query.engine === 'spark' && 'Spark · '}
              <When at={query.created_at} />
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}

/** What is kept: the caller's own, and what others share. */
export function Saved({ open }: { open: (saved: SavedQuery) => void }) {
  const { data, error } = useQuery(savedQueries());
  if (error !== null) return <ProblemNote error={error} what="cannot list saved queries" />;
  if (data?.length === 0) return <Empty title="Nothing is saved yet">Save keeps a statement under a name.</Empty>;
  return (
    <ul className={styles.list} aria-label="saved queries">
      {data?.map((saved) => (
        <li key={saved.id} className={styles.item}>
          <button type="button" onClick={() => open(saved)}>
            {saved.name}
            <span className={styles.small}>
              {saved.shared && <IconUsers size={12} aria-hidden />} {saved.engine === 'spark' && 'Spark, '}
              {saved.shared ? 'shared' : 'only you'}
              {!saved.mine && saved.owner !== null && ` by ${saved.owner}`}
            </span>
          </button>
          {saved.mine && <Delete saved={saved} />}
        </li>
      ))}
    </ul>
  );
}

function Delete({ saved }: { saved: SavedQuery }) {
  const remove = useDo(`cannot delete ${saved.name}`, () =>
    answered(api.DELETE('/saved-queries/{saved_id}', { params: { path: { saved_id: saved.id } } })),
  );
  return (
    <Tooltip label={`delete ${saved.name}`}>
      <ActionIcon size="sm" mt={3} loading={remove.isPending} onClick={() => remove.mutate()} aria-label={`delete ${saved.name}`}>
        <IconTrash size={14} />
      </ActionIcon>
    </Tooltip>
  );
}
