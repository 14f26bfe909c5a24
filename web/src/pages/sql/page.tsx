import { Button, Kbd, SegmentedControl, Select, Tabs, Text } from '@mantine/core';
import { useLocalStorage, useMediaQuery, useOs } from '@mantine/hooks';
import { IconPlayerPlay, IconPlayerPlayFilled } from '@tabler/icons-react';
import { useInfiniteQuery, useMutation, useQueries, useQuery, useQueryClient } from '@tanstack/react-query';
import { useMemo, useRef, useState } from 'react';
import { useParams } from 'react-router';

import { namespaces, table as tableQuery, tables } from '../../api/queries';
import { cancelQuery, isActive, runQuery, sqlQuery, sqlSettings, type Engine } from '../../api/sql-queries';
import type { SavedQuery, SparkQueries, SqlQuery } from '../../api/types';
import { ProblemNote, Words } from '../../components/notes';
import { RowsOff } from '../../components/rows-off';
import { Page } from '../../components/panel';
import { SqlEditor, type EditorHandle } from '../../components/sql-editor';
import { partsOf } from '../../lib/names';
import { fullName } from '../../lib/paths';
import { wordsOf } from '../../lib/results';
import { useUrlState } from '../../lib/url-state';
import { History, Saved } from './lists';
import { Result } from './result';
import { Save } from './save';
import { Tree } from './tree';
import styles from './sql.module.css';

const LIMITS = ['100', '1000', '10000'];
const NARROW = '(max-width: 62em)';

export function SqlPage() {
  const { catalog = '' } = useParams();
  return <OnePage key={catalog} catalog={catalog} />;
}

/** A statement, its result, and beside them what helps to write it. */
function OnePage({ catalog }: { catalog: string }) {
  const [get, set] = useUrlState();
  const narrow = useMediaQuery(NARROW);
  const [side, setSide] = useState<boolean | null>(null);
  const shown = side ?? !narrow;
  const [draft, setDraft] = useLocalStorage({ key: `firn.sql.${catalog}`, defaultValue: '', getInitialValueInEffect: false });
  const [start] = useState(() => get('sql') ?? draft);
  const [text, setText] = useState(start);
  const [namespace, setNamespace] = useNamespace(catalog);
  const [saved, setSaved] = useState<SavedQuery>();
  const [saving, setSaving] = useState(false);
  const [tab, setTab] = useState('tables');
  const editor = useRef<EditorHandle>(null);
  const id = get('query');
  const { engine, choose: chooseEngine, spark } = useEngine();
  const work = useWork(catalog, namespace, engine, (query) => set({ query, sql: undefined }));
  const change = (typed: string) => {
    setText(typed);
    setDraft(typed);
  };
  const open = (query: SqlQuery) => {
    editor.current?.set(query.statement);
    chooseEngine(query.engine);
    setSaved(undefined);
    set({ query: query.id, sql: undefined });
  };
  const openSaved = (kept: SavedQuery) => {
    editor.current?.set(kept.statement);
    chooseEngine(kept.engine);
    setSaved(kept);
    if (kept.catalog === catalog) setNamespace(kept.namespace);
    set({ query: undefined, sql: undefined });
  };
  const run = (explain: boolean) => work.run(editor.current?.chosen() ?? text, explain);
  return (
    <Page title="SQL" sub="Reads tables with your rights. Names without a namespace belong to the chosen one.">
      <RowsOff />
      <div className={styles.layout} data-side={shown ? 'yes' : 'no'}>
        {shown && (
          <Tabs value={tab} onChange={(value) => setTab(value ?? 'tables')} className={styles.side ?? ''} keepMounted={false}>
            <Tabs.List aria-label="beside the statement">
              <Tabs.Tab value="tables">Tables</Tabs.Tab>
              <Tabs.Tab value="history">History</Tabs.Tab>
              <Tabs.Tab value="saved">Saved</Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="tables"><Tree catalog={catalog} insert={(name) => editor.current?.insert(name)} /></Tabs.Panel>
            <Tabs.Panel value="history"><History open={open} /></Tabs.Panel>
            <Tabs.Panel value="saved"><Saved open={openSaved} /></Tabs.Panel>
          </Tabs>
        )}
        <div className={styles.work}>
          <SqlEditor ref={editor} initial={start} schema={useSchema(catalog, text)} namespace={namespace} engine={engine} run={() => run(false)} change={change} />
          <div className={styles.bar}>
            <RunButton running={work.running || work.begins} run={() => run(false)} />
            <EngineChoice value={engine} choose={chooseEngine} spark={spark} />
            <Button variant="default" leftSection={<IconPlayerPlay size={14} />} onClick={() => run(true)}>
              Explain
            </Button>
            <Button variant="default" onClick={() => setSaving(true)} disabled={text.trim() === ''}>
              Save
            </Button>
            <NamespaceChoice catalog={catalog} value={namespace} choose={setNamespace} />
            <Select aria-label="most rows" w={118} data={LIMITS.map((value) => ({ value, label: `${Number(value).toLocaleString('en')} rows` }))} value={String(work.limit)} onChange={(value) => work.setLimit(Number(value))} />
            <Button variant="subtle" onClick={() => setSide(!shown)} aria-expanded={shown}>
              {shown ? 'Hide tables' : 'Show tables'}
            </Button>
          </div>
          <Text size="xs" c="dimmed" id="engine-use">
            {engine === 'spark' ? SPARK_USE : INSTANT_USE}{' '}
            {spark !== undefined && !spark.available && <Words>{`Spark is not available: ${spark.reason ?? 'queries are switched off.'} ${spark.hint ?? ''}`}</Words>}
          </Text>
          {work.error !== null && <ProblemNote error={work.error} />}
          {work.error === null && id !== undefined && <Result id={id} cancel={() => work.cancel(id)} canceling={work.canceling} />}
        </div>
      </div>
      {saving && (
        <Save
          statement={text}
          engine={engine}
          catalog={catalog}
          namespace={namespace}
          from={saved?.mine === true ? saved : undefined}
          close={() => setSaving(false)}
          done={(kept) => {
            setSaved(kept);
            setSaving(false);
            setTab('saved'); // the new statement in the list says that it is saved
          }}
        />
      )}
    </Page>
  );
}

function RunButton({ running, run }: { running: boolean; run: () => void }) {
  const os = useOs();
  return (
    <Button leftSection={<IconPlayerPlayFilled size={14} />} onClick={run} loading={running} rightSection={<Kbd size="xs">{os === 'macos' ? '⌘↵' : 'Ctrl ↵'}</Kbd>}>
      Run
    </Button>
  );
}

const INSTANT_USE = "Instant: DuckDB's SQL, answered by the server, for queries of up to a minute.";
const SPARK_USE = 'Spark: an optimizer answers, in Spark SQL. For large queries, and tables that the instant engine does not read.';

/** The chosen engine. While no optimizer answers queries it is the instant one. */
function useEngine() {
  const { data } = useQuery(sqlSettings());
  const [chosen, choose] = useLocalStorage<Engine>({ key: 'firn.sql.engine', defaultValue: 'instant', getInitialValueInEffect: false });
  const spark = data?.spark;
  const engine: Engine = chosen === 'spark' && spark?.available !== false ? 'spark' : 'instant';
  return { engine, choose, spark };
}

function EngineChoice({ value, choose, spark }: { value: Engine; choose: (engine: Engine) => void; spark: SparkQueries | undefined }) {
  return (
    <SegmentedControl
      aria-label="engine"
      aria-describedby="engine-use"
      size="xs"
      value={value}
      onChange={(chosen) => choose(chosen === 'spark' ? 'spark' : 'instant')}
      data={[
        { value: 'instant', label: 'Instant' },
        { value: 'spark', label: 'Spark', disabled: spark?.available !== true },
      ]}
    />
  );
}

/** Begins and cancels queries. */
function useWork(catalog: string, namespace: string, engine: Engine, show: (id: string) => void) {
  const queries = useQueryClient();
  const [limit, setLimit] = useLocalStorage({ key: 'firn.sql.limit', defaultValue: 1000, getInitialValueInEffect: false });
  const begin = useMutation({
    mutationFn: ({ statement, explain }: { statement: string; explain: boolean }) => runQuery(queries, { statement, engine, catalog, namespace, limit, explain }),
    onSuccess: (query) => show(query.id),
  });
  const stop = useMutation({
    mutationFn: cancelQuery,
    onSuccess: (query) => queries.setQueryData(sqlQuery(query.id).queryKey, query),
  });
  const { data } = useQuery({ ...sqlQuery(begin.data?.id), enabled: begin.data !== undefined && isActive(begin.data) });
  return {
    run: (statement: string, explain: boolean) => {
      if (!begin.isPending) begin.mutate({ statement, explain });
    },
    cancel: (id: string) => stop.mutate(id),
    begins: begin.isPending,
    running: data !== undefined && isActive(data),
    canceling: stop.isPending,
    error: begin.error,
    limit,
    setLimit,
  };
}

function useNamespace(catalog: string): [string, (namespace: string) => void] {
  const { data } = useQuery(namespaces(catalog));
  const [chosen, choose] = useLocalStorage({ key: `firn.sql.namespace.${catalog}`, defaultValue: '', getInitialValueInEffect: false });
  return [chosen === '' ? (data?.items[0]?.name ?? '') : chosen, choose];
}

function NamespaceChoice({ catalog, value, choose }: { catalog: string; value: string; choose: (namespace: string) => void }) {
  const { data } = useQuery(namespaces(catalog));
  const names = [...new Set([...(data?.items.map(({ name }) => name) ?? []), value].filter((name) => name !== ''))];
  return <Select aria-label="namespace" w={150} searchable data={names} value={value} placeholder="namespace" onChange={(chosen) => choose(chosen ?? '')} />;
}

/** What completion knows: all tables of the first page, and the columns of those that the statement mentions. */
function useSchema(catalog: string, text: string): Record<string, string[]> {
  const { data } = useInfiniteQuery(tables(catalog, {}, 500));
  const names = useMemo(() => (data?.pages[0]?.items ?? []).filter(({ kind }) => kind !== 'view').map(fullName), [data]);
  const words = wordsOf(text);
  const named = names.filter((name) => words.has((partsOf(name).at(-1) ?? name).toLowerCase())).slice(0, 20);
  const found = useQueries({ queries: named.map((name) => ({ ...tableQuery(catalog, name), staleTime: 60_000 })) });
  const columns = found.map((one) => one.data?.columns.map((column) => column.name) ?? []);
  const known = JSON.stringify([names, named, columns]);
  return useMemo(() => {
    const [all, some, theirs] = JSON.parse(known) as [string[], string[], string[][]];
    return Object.fromEntries(all.map((name) => [name, theirs[some.indexOf(name)] ?? []]));
  }, [known]);
}
