import { Button } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';

import { cdcPlan } from '../../api/cdc-queries';
import { connections } from '../../api/stream-queries';
import type { CdcPlan, CdcTablePlan } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { Note, ProblemNote } from '../../components/notes';
import { Snippet } from '../../components/snippet';
import { BROKEN, HEALTHY, Mark } from '../../components/status-icons';
import { requestOf } from '../../lib/cdc';
import { count, many } from '../../lib/format';
import { Footer } from './footer';
import type { StepProps } from './page';

type Row = CdcTablePlan & { topic: string };

const ACTIONS: Readonly<Record<string, string>> = { create: 'create', change: 'change', none: 'keep as it is', stop: 'cannot make' };

const COLUMNS: Column<Row>[] = [
  { key: 'table', title: 'Table', cell: (row) => <Name text={row.table} /> },
  { key: 'topic', title: 'Topic', cell: (row) => <Name text={row.topic} /> },
  { key: 'sources', title: 'From', cell: (row) => <Name text={row.sources.join(', ')} /> },
  { key: 'action', title: 'Action', cell: (row) => <Mark look={row.action === 'stop' ? { ...BROKEN, says: 'cannot make' } : { ...HEALTHY, says: ACTIONS[row.action] ?? row.action }} /> },
  { key: 'what', title: 'Key and columns', cell: (row) => <What table={row} />, wide: true },
];

const Name = ({ text }: { text: string }) => (
  <div className="mono wrap-anywhere" style={{ minWidth: 140 }}>
    {text}
  </div>
);

function What({ table }: { table: Row }) {
  if (table.problem !== null) return <div className="bad wrap-anywhere" style={{ minWidth: 220 }}>{table.problem}</div>;
  const added = Object.entries(table.columns).map(([name, type]) => `${name} ${type}`);
  return (
    <div className="wrap-anywhere" style={{ minWidth: 220 }}>
      <div>
        key <span className="mono">{table.primary_key.join(', ')}</span>
      </div>
      {added.length > 0 && <div className="mono dim">{`${table.action === 'change' ? 'add ' : ''}${added.join(', ')}`}</div>}
    </div>
  );
}

/** What a run would do, by the sample; the file, and the commands that run it. */
export function PlanStep({ catalog, draft, go }: StepProps) {
  const { data: plan, error, isLoading } = useQuery(cdcPlan(catalog, requestOf(draft)));
  const { data: known } = useQuery(connections(true));
  const connection = known?.find(({ name }) => name === draft.connection);
  return (
    <div className="stack">
      {error !== null && <ProblemNote error={error} what="cannot plan" />}
      {isLoading && <span className="dim">Reading the topics …</span>}
      {plan !== undefined && <Tables plan={plan} partial={draft.rules.every((rule) => rule.partial)} />}
      {plan !== undefined && <File text={plan.file} catalog={catalog} needsPassword={connection?.has_password === true} />}
      <Footer back={() => go(3)} />
    </div>
  );
}

function Tables({ plan, partial }: { plan: CdcPlan; partial: boolean }) {
  const rows = plan.topics.flatMap((topic) => topic.tables.map((table) => ({ ...table, topic: topic.topic })));
  const leftOut = plan.topics.flatMap((topic) => topic.left_out);
  const lacking = partial ? [] : rows.filter((row) => row.lacks_values).map((row) => row.table);
  return (
    <>
      {plan.topics.length === 0 && (
        <Note tone="warn" title="No topic matches now">
          A run waits for topics that match.
        </Note>
      )}
      <DataTable plain name="plan" columns={COLUMNS} rows={rows} id={(row) => `${row.topic} ${row.table}`} empty={<span className="dim">The records of the sample name no table that a rule takes.</span>} />
      {leftOut.length > 0 && (
        <Note title={`No rule takes ${many(leftOut.length, 'table')} of the source`}>
          <span className="mono wrap-anywhere">{leftOut.slice(0, 20).join(', ')}</span>
        </Note>
      )}
      {lacking.length > 0 && (
        <Note tone="warn" title="Updates leave out values that they do not change">
          Set <i>Partial</i> for the rules of <span className="mono wrap-anywhere">{lacking.join(', ')}</span>, or let the source send whole rows.
        </Note>
      )}
      {plan.topics.filter((topic) => Object.keys(topic.bad).length > 0).map((topic) => (
        <Note key={topic.topic} tone="warn" title={`${topic.topic}: bad records in the sample of ${count(topic.records)}`}>
          {Object.entries(topic.bad).map(([reason, number]) => (
            <div key={reason} className="wrap-anywhere">{`${count(number)}: ${reason}`}</div>
          ))}
        </Note>
      ))}
      {plan.more_topics > 0 && <Note title={`${many(plan.more_topics, 'more topic')} match and are not in this plan`}>firn cdc plan looks at all of them.</Note>}
    </>
  );
}

function File({ text, catalog, needsPassword }: { text: string; catalog: string; needsPassword: boolean }) {
  const commands = [
    ...(needsPassword ? ['read -rs FIRN_KAFKA_PASSWORD && export FIRN_KAFKA_PASSWORD'] : []),
    `firn cdc plan sync.yaml --server ${window.location.origin} --catalog ${catalog}`,
    `firn cdc run sync.yaml --server ${window.location.origin} --catalog ${catalog}`,
  ];
  return (
    <>
      <Snippet label="sync.yaml" code={text} />
      <Button component="a" href={`data:text/yaml;charset=utf-8,${encodeURIComponent(text)}`} download="sync.yaml" variant="default" leftSection={<IconDownload size={14} />} style={{ alignSelf: 'flex-start' }}>
        Download sync.yaml
      </Button>
      <div className="dim">The plan above saw a sample of each topic. Run the file where it can reach Kafka and the server; it creates the tables, and goes on until you stop it.</div>
      <Snippet label="commands" code={commands.join('\n')} />
    </>
  );
}
