import { useQuery } from '@tanstack/react-query';

import { pipelineLineage } from '../../api/pipeline-queries';
import type { ColumnSource, Pipeline, PipelineTable } from '../../api/types';
import { ProblemNote } from '../../components/notes';
import { Facts, Panel } from '../../components/panel';

/** From which columns each column of a table is computed, and from which inputs of the pipeline in the end. */
export function Lineage({ pipeline, table }: { pipeline: Pipeline; table: PipelineTable }) {
  const { data, error } = useQuery(pipelineLineage(pipeline.name, pipeline.version));
  const columns = data?.tables.find((entry) => entry.table === table.name)?.columns ?? [];
  if (error !== null) return <ProblemNote error={error} what="cannot show the lineage" />;
  if (columns.length === 0) return null;
  return (
    <Panel title="Columns" aside={<span className="dim">computed from</span>}>
      <Facts
        columns
        facts={columns.map(({ column, sources, origins }) => ({
          name: column,
          value: sources.length === 0 ? <span className="dim">no column</span> : <span className="mono wrap-anywhere">{list(sources)}</span>,
          ...(sources.every(({ is_input: isInput }) => isInput) || origins.length === 0 ? {} : { note: `in the end from ${list(origins)}` }),
        }))}
      />
    </Panel>
  );
}

const list = (sources: readonly ColumnSource[]) => sources.map(({ table, column }) => `${table}.${column}`).join(', ');
