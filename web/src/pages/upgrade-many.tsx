import { Button, MultiSelect, Select } from '@mantine/core';
import { useInfiniteQuery, useMutation, useQuery } from '@tanstack/react-query';
import { Link, useParams } from 'react-router';

import { answered, api } from '../api/client';
import { batch as batchQuery, batchOperations } from '../api/hive-queries';
import type { Batch, Operation } from '../api/types';
import { ActionButton } from '../components/action-button';
import { DataTable, type Column } from '../components/data-table';
import { Bytes, Count } from '../components/figures';
import { ListedTable } from '../components/job-parts';
import { OutcomeMark } from '../components/status-icons';
import { Empty, Note, ProblemNote, Words } from '../components/notes';
import { Page, Panel } from '../components/panel';
import { need, scopeOf } from '../lib/access';
import { bytes, many } from '../lib/format';
import { keysFrom, keysText, NO_KEY, withColumns, type Key, type Keys } from '../lib/keys';
import { paths } from '../lib/paths';
import { useUrlState } from '../lib/url-state';
import { BatchBar, OperationBar } from './operations';
import { BatchActions, OperationActions } from './operation-actions';
import { suggestedFirst } from './key-suggestions';
import { propertiesOf, Subdirectories } from './upgrade-steps';

/** What an operation keeps of the checks that were made for it. */
interface Found {
  files?: number;
  bytes?: number;
  partitions?: number;
  primary_key_candidates?: string[];
  key_suggestions?: { columns: string[] }[];
  disproved_keys?: { columns: string[]; reason: string }[];
  /** Those in files, by which rows can be put in order. */
  columns?: string[];
  checks?: { code: string; status: string; message: string; advice: string }[];
}

/** Many Hive tables: first the report of all, with a key for those that want one, then their upgrades side by side. */
export function UpgradeManyPage() {
  const { catalog = '' } = useParams();
  const [get] = useUrlState();
  const upgrade = get('batch');
  const check = get('check');
  return (
    <Page
      title="Upgrade many tables"
      sub={upgrade === undefined ? 'Turns Hive tables into Iceberg tables in place. Nothing changes before you press Upgrade.' : undefined}
    >
      {upgrade !== undefined ? (
        <Progress catalog={catalog} id={upgrade} />
      ) : check !== undefined ? (
        <Report catalog={catalog} id={check} />
      ) : (
        <Panel>
          <Empty title="No tables are chosen" action={<Button component={Link} to={paths.hive(catalog)}>Hive tables</Button>}>
            Select tables in the list, or a whole database.
          </Empty>
        </Panel>
      )}
    </Page>
  );
}

function useBatch(catalog: string, id: string) {
  const known = useQuery(batchQuery(catalog, id));
  const found = useInfiniteQuery(batchOperations(id, known.data?.unfinished !== 0));
  return { batch: known.data, error: known.error ?? found.error, found, rows: found.data?.pages.flatMap((page) => page.items) };
}

/** What every table's check has found; those that can be upgraded are, with the keys chosen here. */
function Report({ catalog, id }: { catalog: string; id: string }) {
  const [get, set] = useUrlState();
  const { batch, error, found, rows } = useBatch(catalog, id);
  const keys = keysFrom(get('keys'));
  const choose = (table: string, key: Key) => set({ keys: keysText({ ...keys, [table]: key }) });
  if (batch === undefined) return <Panel>{error ? <ProblemNote error={error} /> : <span className="dim">…</span>}</Panel>;
  return (
    <>
      <Panel title="Checks" aside={<BatchActions catalog={catalog} batch={batch} />}>
        <BatchBar batch={batch} />
      </Panel>
      <Start catalog={catalog} batch={batch} rows={rows ?? []} whole={!found.hasNextPage} keys={keys} />
      <Below catalog={catalog} batch={batch} rows={rows ?? []} whole={!found.hasNextPage} />
      <DataTable
        name="tables to upgrade"
        columns={reportColumns(keys, choose)}
        rows={rows}
        id={(row) => row.id}
        link={(row) => paths.upgrade(catalog, row.target)}
        more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
        empty={null}
      />
    </>
  );
}

const found = (row: Operation): Found => row.result;

function reportColumns(keys: Keys, choose: (table: string, key: Key) => void): Column<Operation>[] {
  const ordered = Object.values(keys).some(({ columns }) => columns.length > 0);
  const all: Column<Operation>[] = [
    { key: 'table', title: 'Hive table', cell: (row) => <ListedTable table={row.target} /> },
    { key: 'outcome', title: 'Check', cell: (row) => <OutcomeMark outcome={row.outcome} /> },
    { key: 'partitions', title: 'Partitions', cell: (row) => <Count value={found(row).partitions} />, right: true },
    { key: 'files', title: 'Files', cell: (row) => <Count value={found(row).files} />, right: true },
    { key: 'bytes', title: 'Size', cell: (row) => <Bytes value={found(row).bytes} />, right: true },
    {
      key: 'key',
      title: 'Primary key',
      help: 'Without one it becomes a plain table. It cannot be changed later.',
      cell: (row) => row.outcome === 'eligible' && <KeyOf operation={row} chosen={keys[row.target] ?? NO_KEY} choose={(key) => choose(row.target, key)} />,
    },
    {
      key: 'sequence',
      title: 'Sequence field',
      help: 'For changes of the same key, the higher value wins, however late it arrives',
      cell: (row) =>
        (keys[row.target] ?? NO_KEY).columns.length > 0 && (
          <SequenceOf operation={row} chosen={keys[row.target] ?? NO_KEY} choose={(key) => choose(row.target, key)} />
        ),
    },
    { key: 'why', title: 'Problems and fixes', cell: (row) => <InTheWay operation={row} />, wide: true },
  ];
  return all.filter(({ key }) => key !== 'sequence' || ordered);
}

interface ChoiceProps {
  operation: Operation;
  chosen: Key;
  choose: (key: Key) => void;
}

function KeyOf({ operation, chosen, choose }: ChoiceProps) {
  const disproved = found(operation).disproved_keys?.find(({ columns }) => columns.join() === chosen.columns.join());
  return (
    <MultiSelect
      aria-label={`primary key of ${operation.target}`}
      placeholder={chosen.columns.length === 0 ? 'plain table' : ''}
      w={190}
      searchable
      clearable
      clearButtonProps={{ 'aria-label': `no primary key for ${operation.target}` }}
      data={suggestedFirst(found(operation))}
      value={chosen.columns}
      onChange={(columns) => choose(withColumns(chosen, columns))}
      error={disproved === undefined ? undefined : `no key: ${disproved.reason}`}
    />
  );
}

function SequenceOf({ operation, chosen, choose }: ChoiceProps) {
  const others = (found(operation).columns ?? []).filter((name) => !chosen.columns.includes(name));
  return (
    <Select
      aria-label={`sequence field of ${operation.target}`}
      w={190}
      searchable
      value={chosen.sequence}
      onChange={(value) => choose({ ...chosen, sequence: value ?? '' })}
      data={[{ value: '', label: 'none: the later commit wins' }, ...others]}
    />
  );
}

function InTheWay({ operation }: { operation: Operation }) {
  const checks = found(operation).checks ?? [];
  const blocked = checks.filter((check) => check.status === 'blocked');
  const shown = blocked.length > 0 ? blocked : checks.filter((check) => check.status === 'warn' && check.code !== 'key');
  return (
    <div className="wrap-anywhere" style={{ minWidth: 340, maxWidth: 620 }}>
      {shown.map((check) => (
        <div key={check.code + check.message}>
          <Words>{check.message}</Words>.{' '}
          <span className="dim">
            <Words>{check.advice}</Words>
          </span>
        </div>
      ))}
      {operation.error !== null && blocked.length === 0 && (
        <div>
          {operation.error}{' '}
          <span className="dim">{operation.hint !== null && <Words>{operation.hint}</Words>}</span>
        </div>
      )}
    </div>
  );
}

const hasBelow = (row: Operation): boolean => (found(row).checks ?? []).some((check) => check.code === 'subdirectories');

/** Tables with sub-directories: one answer holds for all of them, and they are checked again with it. */
function Below({ catalog, batch, rows, whole }: Omit<StartProps, 'keys'>) {
  const [get, set] = useUrlState();
  const shown = get('subdirectories') ?? '';
  const below = rows.filter(hasBelow);
  const again = useMutation({
    mutationFn: (choice: string) =>
      answered(
        api.POST('/catalogs/{catalog}/hive/upgrade', {
          params: { path: { catalog } },
          body: { tables: rows.map((row) => row.target), keys: {}, properties: propertiesOf(choice), dry_run: true },
        }),
      ),
    onSuccess: (started, choice) => started.batch !== null && set({ check: started.batch.id, subdirectories: choice }),
  });
  if (batch.unfinished > 0 || !whole || (below.length === 0 && shown === '')) return null;
  return (
    <Note title={`${many(below.length, 'table')} of these ${below.length === 1 ? 'has' : 'have'} files in sub-directories`}>
      <div className="stack">
        {again.error && <ProblemNote error={again.error} />}
        <Subdirectories value={shown} decide={(choice) => again.mutate(choice)} />
      </div>
    </Note>
  );
}

interface StartProps {
  catalog: string;
  batch: Batch;
  rows: Operation[];
  /** Whether all of the batch is in `rows`. */
  whole: boolean;
  keys: Keys;
}

/** What will happen, and the button. */
function Start({ catalog, batch, rows, whole, keys }: StartProps) {
  const [get, set] = useUrlState();
  const subdirectories = get('subdirectories') ?? '';
  const eligible = rows.filter((row) => row.outcome === 'eligible');
  const keyed = eligible.filter((item) => (keys[item.target] ?? NO_KEY).columns.length > 0);
  const start = useMutation({
    mutationFn: () =>
      answered(
        api.POST('/catalogs/{catalog}/hive/upgrade', {
          params: { path: { catalog } },
          body: {
            tables: eligible.map((item) => item.target),
            keys: Object.fromEntries(keyed.map((item) => [item.target, asked(keys[item.target] ?? NO_KEY)])),
            properties: propertiesOf(subdirectories),
            dry_run: false,
          },
        }),
      ),
    onSuccess: (started) => set(started.batch === null ? {} : { batch: started.batch.id, check: undefined, keys: undefined, subdirectories: undefined }),
  });
  const files = eligible.reduce((sum, operation) => sum + (found(operation).files ?? 0), 0);
  const size = eligible.reduce((sum, operation) => sum + (found(operation).bytes ?? 0), 0);
  const databases = [...new Set(eligible.map((item) => item.target.split('.')[0] ?? ''))];
  return (
    <>
      {start.error && <ProblemNote error={start.error} />}
      <Note
        title={
          eligible.length === 0
            ? batch.unfinished > 0
              ? 'The checks are running.'
              : 'None of these tables can be upgraded as it is.'
            : `${batch.unfinished > 0 || !whole ? 'So far ' : ''}${many(eligible.length, 'table')} with ${many(files, 'file')} (${bytes(size)}) can be upgraded, ${keyed.length} with a key.`
        }
        action={
          <ActionButton
            needs={databases.flatMap((database) => need(scopeOf(catalog, [database]), 'create', 'read'))}
            loading={start.isPending}
            disabledReason={whyNotYet(batch, eligible.length, whole)}
            onClick={() => start.mutate()}
          >
            {`Upgrade ${many(eligible.length, 'table')}`}
          </ActionButton>
        }
      >
        Firn reads the footers of the files, not the data. It moves, rewrites and deletes no file; Hive’s readers and writers go on. Each table
        is upgraded on its own, a few at a time: one that fails stays as it was and delays no other. Uniqueness of keys is not checked.
      </Note>
    </>
  );
}

function asked({ columns, sequence }: Key) {
  return { primary_key: columns, sequence_field: sequence === '' ? null : sequence, key_scope: 'global' as const };
}

function whyNotYet(batch: Batch, eligible: number, whole: boolean): string | null {
  if (batch.unfinished > 0) return 'Not all tables are checked yet.';
  if (!whole) return 'Load the other tables first, so that you see what you upgrade.';
  return eligible === 0 ? 'No table can be upgraded as it is.' : null;
}

const PROGRESS: Column<Operation>[] = [
  { key: 'table', title: 'Table', cell: (row) => <ListedTable table={row.target} /> },
  { key: 'outcome', title: 'State', cell: (row) => <OutcomeMark outcome={row.outcome} /> },
  { key: 'files', title: 'Files', cell: (row) => <Count value={found(row).files} />, right: true },
  { key: 'bytes', title: 'Size', cell: (row) => <Bytes value={found(row).bytes} />, right: true },
  { key: 'how', title: 'Progress or error', cell: (row) => <HowFar operation={row} />, wide: true },
  { key: 'act', title: '', cell: (row) => (row.ended_at === null ? <OperationActions operation={row} /> : null), right: true },
];

function HowFar({ operation }: { operation: Operation }) {
  if (operation.outcome === 'running' || (operation.outcome === 'paused' && operation.total > 0)) return <OperationBar operation={operation} thin />;
  return <InTheWay operation={operation} />;
}

/** All upgrades of one request: they go on whoever looks. */
function Progress({ catalog, id }: { catalog: string; id: string }) {
  const { batch, error, found, rows } = useBatch(catalog, id);
  if (batch === undefined) return <Panel>{error ? <ProblemNote error={error} /> : <span className="dim">…</span>}</Panel>;
  return (
    <>
      <Panel title="Upgrades" aside={<BatchActions catalog={catalog} batch={batch} />}>
        <div className="stack">
          <BatchBar batch={batch} />
          <span className="dim">
            {batch.unfinished > 0
              ? 'Closing this page does not stop them; Hive and Home list them. Upgraded tables stay upgraded, even if others fail.'
              : 'All have ended. Tables that are not upgraded are as they were.'}
          </span>
        </div>
      </Panel>
      <DataTable
        name="upgrades"
        columns={PROGRESS}
        rows={rows}
        id={(row) => row.id}
        link={(row) => (row.outcome === 'upgraded' ? paths.table(catalog, row.target) : paths.upgrade(catalog, row.target, row.id))}
        more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
        empty={null}
      />
    </>
  );
}
