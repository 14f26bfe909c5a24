import { useInfiniteQuery } from '@tanstack/react-query';

import { answered, api } from '../../api/client';
import { deletedBy } from '../../api/queries';
import type { Job, OrphanBatch } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { useDo } from '../../components/confirm-dialog';
import { DataTable, type Column } from '../../components/data-table';
import { Bytes, When } from '../../components/figures';
import { need, onTable } from '../../lib/access';
import { many } from '../../lib/format';

interface TakenFile {
  batch: OrphanBatch;
  file: OrphanBatch['files'][number];
}

const COLUMNS: Column<TakenFile>[] = [
  { key: 'path', title: 'File', cell: ({ file }) => <div className="mono wrap-anywhere" style={{ minWidth: 260 }}>{file.path}</div>, wide: true },
  { key: 'state', title: 'Now', cell: ({ file }) => SAYS[file.state] ?? file.state },
  { key: 'bytes', title: 'Size', cell: ({ file }) => <Bytes value={file.bytes} />, right: true },
  { key: 'modified', title: 'Last written', cell: ({ file }) => <When at={file.modified} />, right: true },
  { key: 'until', title: 'Kept until', cell: ({ batch }) => <When at={batch.deleted_after} />, right: true, help: 'Firn may delete it after this date' },
];

const SAYS: Record<string, string> = {
  moving: 'being moved to quarantine',
  aside: 'in quarantine',
  noted: 'noted, left in place',
  deleting: 'being deleted',
  deleted: 'deleted',
};

/** Every file that a job for orphans has taken, and a way back while there is one. */
export function Deleted({ job }: { job: Job }) {
  const found = useInfiniteQuery({ ...deletedBy(job.id), enabled: job.kind === 'remove-orphans' });
  const restore = useDo('cannot restore the files', () =>
    answered(
      api.POST('/catalogs/{catalog}/tables/{table}/quarantine/restore', {
        params: { path: { catalog: job.catalog, table: job.table } },
        body: { job_id: job.id },
      }),
    ),
  );
  if (job.kind !== 'remove-orphans') return null;
  const files = found.data?.pages.flatMap((page) => page.items.flatMap((batch) => batch.files.map((file) => ({ batch, file }))));
  const aside = files?.filter(({ file }) => file.state === 'aside' || file.state === 'noted').length ?? 0;
  return (
    <DataTable
      name="files it took"
      title={files === undefined ? 'Files moved to quarantine' : `${many(files.length, 'file')} taken`}
      aside={
        <ActionButton
          variant="default"
          size="compact-xs"
          needs={need(onTable(job.catalog, job.table), 'maintain')}
          loading={restore.isPending}
          disabledReason={aside > 0 || found.hasNextPage ? null : 'No file is in quarantine: there is nothing to restore.'}
          onClick={() => restore.mutate()}
        >
          Put back
        </ActionButton>
      }
      columns={COLUMNS}
      rows={files}
      error={found.error}
      id={({ file }) => file.path}
      more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
      empty={<p style={{ margin: 0, padding: 14, fontSize: 13 }} className="dim">The job took no file.</p>}
    />
  );
}
