import { TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { answered, api } from '../api/client';
import type { HiveReport } from '../api/types';
import { Act } from '../components/act';
import { Note, ProblemNote } from '../components/notes';
import { need, onTable, scopeOf } from '../lib/access';
import { bytes, many } from '../lib/format';
import { partsOf } from '../lib/names';
import { paths } from '../lib/paths';
import styles from './upgrade.module.css';

/** For what cannot be upgraded and Spark can read: a table of its own with the same rows, by a job that is shown then. */
export function ConvertOffer({ catalog, report }: { catalog: string; report: HiveReport }) {
  const navigate = useNavigate();
  const [name, setName] = useState(report.target);
  const start = useMutation({
    mutationFn: () =>
      answered(
        api.POST('/catalogs/{catalog}/hive/{full_name}/convert', {
          params: { path: { catalog, full_name: report.table } },
          body: { name },
        }),
      ),
    onSuccess: (job) => void navigate(paths.job(job.id)),
  });
  const needs = [...need(scopeOf(catalog, partsOf(name).slice(0, -1)), 'create'), ...need(onTable(catalog, report.target), 'read')];
  return (
    <Note title="Or make an Iceberg copy of it, by a rewrite">
      <div className="stack">
        <div>
          This table is stored as {report.format}. It cannot be taken over in place, but its rows can be written anew:{' '}
          {many(report.files, 'file')} ({bytes(report.bytes)}) will be read, by Spark, and all of it written. Hive&apos;s table stays as it
          is, and the new one does not follow it afterwards: it is neither synced nor published.
        </div>
        <TextInput label="Name of the new table" w={360} value={name} onChange={(event) => setName(event.currentTarget.value)} />
        {start.error && <ProblemNote error={start.error} />}
        <div className={styles.footer}>
          <Act
            needs={needs}
            loading={start.isPending}
            disabledReason={name.includes('.') ? null : 'Write it as NAMESPACE.TABLE.'}
            onClick={() => start.mutate()}
          >
            Rewrite into {name}
          </Act>
        </div>
      </div>
    </Note>
  );
}
