import { Autocomplete } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';

import { cdcPlan } from '../../api/cdc-queries';
import type { CdcTablePlan } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { Note, ProblemNote } from '../../components/notes';
import { COLUMN_TYPES, requestOf, ruleOf, withType, type Draft, type RuleDraft } from '../../lib/cdc';
import { Footer } from './footer';
import type { StepProps } from './page';

interface Typed {
  name: string;
  type: string;
  isKey: boolean;
}

const IS_TYPE = /^(boolean|int|long|float|double|string|binary|date|timestamp|timestamptz|decimal\([1-9]\d?,\d{1,2}\))$/;

/** The types of new columns, by the records; the user may choose others before a table has them. */
export function TypesStep({ catalog, draft, change, go }: StepProps) {
  const { data, error, isLoading } = useQuery({ ...cdcPlan(catalog, requestOf(draft)), placeholderData: keepPreviousData });
  const tables = (data?.topics ?? []).flatMap((topic) => topic.tables).filter((table) => Object.keys(table.columns).length > 0);
  return (
    <div className="stack">
      <div className="dim">Records without a schema part tell no decimals, dates and times: choose them here. Types of existing columns do not change.</div>
      {error !== null && <ProblemNote error={error} what="cannot plan" />}
      {isLoading && <span className="dim">Reading the topics …</span>}
      {data !== undefined && tables.length === 0 && <Note title="No new columns">The records of the sample bring no new table and no new column.</Note>}
      {tables.map((table) => (
        <Table key={table.table} table={table} draft={draft} change={change} />
      ))}
      <Footer back={() => go(2)} next={() => go(4)} missing={error === null ? null : 'Correct the rules first.'} />
    </div>
  );
}

function Table({ table, draft, change }: Pick<StepProps, 'draft' | 'change'> & { table: CdcTablePlan }) {
  const rule = ruleOf(draft.rules, table.sources[0] ?? '');
  const rows = Object.entries(table.columns).map(([name, type]) => ({ name, type, isKey: table.primary_key.includes(name) }));
  return (
    <div>
      <div className="mono wrap-anywhere" style={{ marginBottom: 4 }}>
        {table.table}
      </div>
      <DataTable plain name={`columns of ${table.table}`} columns={columns(table.table, draft, rule, change)} rows={rows} id={(row) => row.name} empty={null} />
    </div>
  );
}

function columns(table: string, draft: Draft, rule: RuleDraft | undefined, change: StepProps['change']): Column<Typed>[] {
  return [
    { key: 'name', title: 'Column', cell: (row) => <span className="mono wrap-anywhere">{row.name}</span>, wide: true },
    { key: 'key', title: 'Key', cell: (row) => (row.isKey ? 'key' : <span className="dim">–</span>) },
    {
      key: 'type',
      title: 'Type',
      cell: (row) =>
        rule === undefined || row.name === rule.source ? (
          <span className="mono">{row.type}</span>
        ) : (
          <TypeChoice label={`type of ${row.name} in ${table}`} type={row.type} set={(type) => change(withType(draft, rule.id, row.name, type))} />
        ),
    },
  ];
}

/** Text of any type; it counts once it is one. */
function TypeChoice({ label, type, set }: { label: string; type: string; set: (type: string) => void }) {
  return (
    <Autocomplete
      key={type}
      aria-label={label}
      size="xs"
      w={170}
      defaultValue={type}
      data={COLUMN_TYPES}
      onOptionSubmit={set}
      onBlur={(event) => {
        const typed = event.currentTarget.value.trim().replace(/\s+/g, '');
        if (typed !== type && IS_TYPE.test(typed)) set(typed);
      }}
      classNames={{ input: 'mono' }}
    />
  );
}
