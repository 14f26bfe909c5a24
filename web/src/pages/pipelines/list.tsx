import { useInfiniteQuery } from '@tanstack/react-query';

import { pipelines } from '../../api/pipeline-queries';
import type { Pipeline } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { Count, When } from '../../components/figures';
import { Empty } from '../../components/notes';
import { Page } from '../../components/panel';
import { PipelineMark } from '../../components/pipeline-mark';
import { paths } from '../../lib/paths';

const ORDER = ['failed', 'held', 'running', 'behind', 'rebuild', 'new', 'current'];

const COLUMNS: Column<Pipeline>[] = [
  { key: 'name', title: 'Pipeline', cell: (row) => <span className="mono">{row.name}</span>, wide: true },
  { key: 'tables', title: 'Tables', cell: (row) => <Count value={row.tables.length} />, right: true },
  { key: 'state', title: 'State', cell: (row) => <States pipeline={row} /> },
  { key: 'behind', title: 'Oldest change', cell: (row) => <When at={oldestOf(row)} />, right: true, help: 'the oldest commit to an input that a table does not show' },
  { key: 'version', title: 'Version', cell: (row) => <Count value={row.version} />, right: true },
  { key: 'changed', title: 'Changed', cell: (row) => <When at={row.changed_at} />, right: true },
  { key: 'catalog', title: 'Catalog', cell: (row) => <span className="mono">{row.catalog}</span>, extra: true },
  { key: 'owner', title: 'Owner', cell: (row) => row.owner ?? '–', extra: true },
];

/** Each state of its tables once, the one that needs a person first. */
function States({ pipeline }: { pipeline: Pipeline }) {
  const states = [...new Set(pipeline.tables.map(({ state }) => state))].sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
  return (
    <div className="row row-wrap" style={{ gap: 10 }}>
      {states.map((state) => (
        <PipelineMark key={state} state={state} />
      ))}
    </div>
  );
}

function oldestOf(pipeline: Pipeline): string | null {
  return pipeline.tables.map(({ behind_since: at }) => at).filter((at) => at !== null).sort().at(0) ?? null;
}

/** All pipelines of the server, and where their tables stand. */
export function PipelinesPage() {
  const listed = useInfiniteQuery(pipelines());
  return (
    <Page title="Pipelines" sub="Tables that SQL defines. A run computes only the rows that changes of the inputs affect.">
      <DataTable
        name="pipelines"
        columns={COLUMNS}
        rows={listed.data?.pages.flatMap((page) => page.items)}
        error={listed.error}
        id={(row) => row.name}
        link={(row) => paths.pipeline(row.name)}
        more={{ has: listed.hasNextPage, loading: listed.isFetchingNextPage, load: () => void listed.fetchNextPage() }}
        empty={
          <Empty title="No pipeline yet">
            Make a folder with an example, change its SQL, and put it on this server: <code className="mono">firn pipeline init orders</code>, then{' '}
            <code className="mono">firn pipeline put orders</code>
          </Empty>
        }
      />
    </Page>
  );
}
