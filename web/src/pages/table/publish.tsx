import { Modal } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answered, api } from '../../api/client';
import { hiveTable, publishPermissions } from '../../api/hive-queries';
import type { PublishPreview, Table } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { useDo } from '../../components/confirm-dialog';
import { Count, When } from '../../components/figures';
import { InTerminal } from '../../components/in-terminal';
import { Note, ProblemNote, Words } from '../../components/notes';
import { Facts } from '../../components/panel';
import { need, onTable } from '../../lib/access';
import { bytes as formatBytes, many } from '../../lib/format';
import { fullName } from '../../lib/paths';
import { firn } from '../../lib/terminal';
import { isOpen } from './publish-request';

interface PublishProps {
  table: Table;
  hive: string;
  /** Why the table cannot be published, if it cannot. */
  unavailable: string | null;
}

/** The button of a publish, and the dialog that shows what it would do. */
export function Publish({ table, hive, unavailable }: PublishProps) {
  const [opened, setOpened] = useState(false);
  const { data } = useQuery(hiveTable(table.catalog, hive));
  const request = data?.publish_request;
  const running = request && isOpen(request) && request.job_id !== null ? 'A publish is running: see below.' : null;
  return (
    <>
      <ActionButton variant="default" needs={need(onTable(table.catalog, fullName(table)), 'maintain')} disabledReason={running ?? unavailable} onClick={() => setOpened(true)}>
        Publish
      </ActionButton>
      <Modal opened={opened} onClose={() => setOpened(false)} size="lg" title={`Publish to Hive: ${hive}`} closeButtonProps={{ 'aria-label': 'close' }}>
        {opened && <Preview table={table} hive={hive} close={() => setOpened(false)} />}
      </Modal>
    </>
  );
}

/** What Hive lacks and which permissions new directories get, and the button that publishes. */
function Preview({ table, hive, close }: { table: Table; hive: string; close: () => void }) {
  const preview = useQuery(publishPermissions(table.catalog, hive));
  const publish = usePublish(table, hive, close);
  const refused = preview.data?.permissions?.refused ?? null;
  return (
    <div className="stack">
      <div>Firn merges pending changes first. Then it writes the partitions that differ, and repoints the metastore to them.</div>
      {preview.isLoading && <div className="dim">Comparing with Hive…</div>}
      {preview.error && <ProblemNote error={preview.error} what="What Hive lacks is unknown" />}
      {preview.data && <PreviewFacts preview={preview.data} />}
      <InTerminal command={firn('hive publish', [hive], { catalog: table.catalog })} />
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <ActionButton variant="default" onClick={close}>
          Cancel
        </ActionButton>
        <ActionButton loading={publish.isPending} disabledReason={refused === null ? null : 'The publish would fail, see above.'} onClick={() => publish.mutate()}>
          Publish
        </ActionButton>
      </div>
    </div>
  );
}

function PreviewFacts({ preview }: { preview: PublishPreview }) {
  const { differing, since, permissions, new: added, names, files, rows, bytes, pending_rows: pending } = preview;
  const replaced = differing - added;
  const lacks = differing === 0 ? 'nothing' : many(differing, 'partition');
  return (
    <>
      <Facts
        facts={[
          { name: 'not published yet', value: since === null ? lacks : <>{lacks}, since <When at={since} /></> },
          ...(pending === 0 ? [] : [{ name: 'merges first', value: <Count value={pending} />, note: 'pending changes, which may change more partitions' }]),
          ...(differing === 0
            ? []
            : [
                { name: 'rows to write', value: <Count value={rows} />, note: `now ${formatBytes(bytes)} in ${many(files, 'file')}` },
                { name: 'partitions that Hive does not have', value: <Count value={added} /> },
                { name: 'partitions to replace', value: <Count value={replaced} />, ...(names.length === 0 ? {} : { note: names.join(', ') + (replaced > names.length ? ', …' : '') }) },
              ]),
          ...(permissions === null
            ? []
            : [
                { name: 'directory now', value: <span className="mono wrap-anywhere">{permissions.directory}</span> },
                { name: 'permissions', value: <span className="mono">{permissions.permissions}</span> },
              ]),
        ]}
      />
      {differing > 0 && <div className="dim">Queries of Hive that run meanwhile read the old directories to their end. Later ones read the new rows.</div>}
      {permissions !== null && <Permissions permissions={permissions} />}
    </>
  );
}

function Permissions({ permissions }: { permissions: NonNullable<PublishPreview['permissions']> }) {
  const { not_kept: lost, refused, hint } = permissions;
  if (refused !== null)
    return (
      <Note tone="bad" title={<Words>{refused}</Words>}>
        {hint !== null && <Words>{hint}</Words>}
      </Note>
    );
  if (lost.length === 0) return <div className="dim">New directories get the same owner, group, mode and ACL.</div>;
  return (
    <Note tone="warn" title="New directories do not get all of these permissions">
      {lost.map((text) => (
        <div key={text}>
          <Words>{text}</Words>
        </div>
      ))}
      {hint !== null && <Words>{hint}</Words>}
    </Note>
  );
}

/** Pending changes are merged first; the server remembers to publish them then, and the page shows how far it is. */
function usePublish(table: Table, hive: string, close: () => void) {
  const queries = useQueryClient();
  return useDo('cannot publish', async () => {
    const outcome = await answered(
      api.POST('/catalogs/{catalog}/hive/{full_name}/publish', {
        params: { path: { catalog: table.catalog, full_name: hive }, query: { merge: true } },
      }),
    );
    close();
    const merges = outcome.job?.kind === 'merge';
    await queries.invalidateQueries({ queryKey: hiveTable(table.catalog, hive).queryKey });
    const waits = outcome.job === null && outcome.waiting;
    notifications.show({
      title: merges ? 'Merging first' : waits ? 'To be published' : outcome.job === null ? 'Nothing is published now' : `Publishing to ${hive}`,
      message: merges ? 'Only merged changes can be published. The publish starts when the merge ends.' : outcome.message,
    });
  });
}
