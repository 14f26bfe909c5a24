import { Checkbox, MultiSelect, Select, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { answered, api } from '../api/client';
import type { HiveReport } from '../api/types';
import { ActionButton } from '../components/action-button';
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
  const [key, setKey] = useState<string[]>([]);
  const [sequence, setSequence] = useState('');
  const [unique, setUnique] = useState(true);
  const others = report.columns.map((column) => column.name).filter((item) => !key.includes(item));
  const start = useMutation({
    mutationFn: () =>
      answered(
        api.POST('/catalogs/{catalog}/hive/{full_name}/convert', {
          params: { path: { catalog, full_name: report.table } },
          body: { name, ...(key.length > 0 && { primary_key: key, sequence_field: others.includes(sequence) ? sequence : null, unique }) },
        }),
      ),
    onSuccess: (job) => void navigate(paths.job(job.id)),
  });
  const needs = [...need(scopeOf(catalog, partsOf(name).slice(0, -1)), 'create'), ...need(onTable(catalog, report.target), 'read')];
  return (
    <Note title="Or copy it to a new Iceberg table">
      <div className="stack">
        <div>
          Firn cannot upgrade this table ({report.format}) in place, but Spark can copy its rows:{' '}
          it reads {many(report.files, 'file')} ({bytes(report.bytes)}) and writes all rows into a new table. The Hive table does not
          change. Afterwards Firn neither syncs nor publishes the copy.
        </div>
        <TextInput label="Name of the new table" w={360} value={name} onChange={(event) => setName(event.currentTarget.value)} />
        <MultiSelect
          label="Primary key"
          description="With one, the new table takes upserts and deletes. It cannot be changed later."
          w={360}
          value={key}
          onChange={setKey}
          data={report.primary_key_candidates}
          placeholder={key.length === 0 ? 'none: a plain table' : undefined}
        />
        {key.length > 0 && (
          <>
            <Select
              label="Sequence field"
              description="For changes of the same key, the higher value wins, however late it arrives"
              w={360}
              value={others.includes(sequence) ? sequence : ''}
              onChange={(value) => setSequence(value ?? '')}
              data={[{ value: '', label: 'none: the later commit wins' }, ...others]}
            />
            <Checkbox
              label="Stop if a key occurs more than once"
              description="Spark checks before it writes any row. Otherwise the copy keeps all rows, and its page offers to remove duplicates."
              checked={unique}
              onChange={(event) => setUnique(event.currentTarget.checked)}
            />
          </>
        )}
        {start.error && <ProblemNote error={start.error} />}
        <div className={styles.footer}>
          <ActionButton
            needs={needs}
            loading={start.isPending}
            disabledReason={name.includes('.') ? null : 'Write it as NAMESPACE.TABLE.'}
            onClick={() => start.mutate()}
          >
            Copy to {name}
          </ActionButton>
        </div>
      </div>
    </Note>
  );
}
