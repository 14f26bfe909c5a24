import { Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';

import { sample as sampleQuery, topics as topicsQuery } from '../../api/cdc-queries';
import type { CdcRecord } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { Bytes, Count } from '../../components/figures';
import { Empty, Note, ProblemNote } from '../../components/notes';
import { FORMATS, matchesPattern, sourcesOf, suggestRules } from '../../lib/cdc';
import { Footer } from './footer';
import type { StepProps } from './page';

const COLUMNS: Column<CdcRecord>[] = [
  { key: 'partition', title: 'Partition', cell: (row) => <Count value={row.partition} />, right: true },
  { key: 'offset', title: 'Offset', cell: (row) => <Count value={row.offset} />, right: true },
  { key: 'source', title: 'Table of the source', cell: (row) => <span className="mono wrap-anywhere">{row.source ?? '–'}</span> },
  { key: 'op', title: 'Change', cell: (row) => changeText(row) },
  { key: 'row', title: 'Record', cell: (row) => <Content record={row} />, wide: true },
  { key: 'bytes', title: 'Size', cell: (row) => <Bytes value={row.bytes} />, right: true },
];

const changeText = ({ op, kind }: CdcRecord): string => {
  if (op !== null) return op === 'D' ? 'delete' : 'upsert';
  return kind ?? '–';
};

/** The row that the record carries, or why it is none. */
function Content({ record }: { record: CdcRecord }) {
  if (record.row !== null) {
    return (
      <div className="mono wrap-anywhere" style={{ minWidth: 220 }}>
        {Object.entries(record.row)
          .map(([name, value]) => `${name}=${value ?? 'null'}`)
          .join(', ')}
      </div>
    );
  }
  return (
    <div className="wrap-anywhere" style={{ minWidth: 220 }}>
      {record.problem !== null && <div className="warn">{record.problem}</div>}
      <div className="mono dim">{(record.value ?? 'no value').slice(0, 300)}</div>
    </div>
  );
}

/** Some of the oldest and newest records of a topic, as the chosen format reads them. */
export function SampleStep({ draft, change, go }: StepProps) {
  const [topic, choose] = useState<string | null>(null);
  const listed = useQuery(topicsQuery(draft.connection, ''));
  const names = (listed.data?.topics ?? []).filter((name) => draft.topics.some((pattern) => matchesPattern(name, pattern)));
  const exact = draft.topics.filter((name) => !name.includes('*') && !names.includes(name));
  const shown = topic ?? names[0] ?? exact[0] ?? null;
  const { data, error, isLoading } = useQuery(sampleQuery(draft.connection, shown, draft.format));
  const guessed = data?.format ?? null;
  useEffect(() => {
    if (draft.format === null && guessed !== null) change({ format: guessed });
  });
  const sources = sourcesOf(data);
  const next = () => {
    if (draft.rules.length === 0) change({ rules: suggestRules(sources) });
    go(2);
  };
  return (
    <div className="stack">
      <div className="row row-wrap" style={{ alignItems: 'flex-end' }}>
        <Select label="Topic" w={320} searchable value={shown} data={[...names, ...exact]} onChange={choose} />
        <Select label="Format" w={200} placeholder="None fits" value={draft.format} data={FORMATS} onChange={(format) => change({ format })} />
      </div>
      {error !== null && <ProblemNote error={error} what="cannot read the topic" />}
      {isLoading && <span className="dim">Reading the topic …</span>}
      {data?.records.length === 0 && <Note title="The topic has no records yet">Choose the format that your connector writes. Tables and types come from records, so the plan stays empty.</Note>}
      {data !== undefined && data.records.length > 0 && guessed === null && (
        <Note tone="warn" title="The records fit no format of change data capture">
          The connector may write plain rows, which a keyed table with <code className="mono">firn.log.topic</code> reads. Debezium in Avro needs a connection with a schema registry.
        </Note>
      )}
      {data !== undefined && data.records.length > 0 && (
        <DataTable plain name="sample" columns={COLUMNS} rows={data.records} id={(row) => `${row.partition}:${row.offset}`} empty={<Empty title="No records" />} />
      )}
      <Footer back={() => go(0)} next={next} missing={draft.format === null ? 'Choose the format of the records.' : null} />
    </div>
  );
}
