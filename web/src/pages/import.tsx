import { Checkbox, PasswordInput, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';
import { useParams } from 'react-router';

import { answered, api } from '../api/client';
import type { ImportRequest } from '../api/types';
import { ActionButton } from '../components/action-button';
import { Choice } from '../components/choice';
import { Note, ProblemNote } from '../components/notes';
import { Page, Panel } from '../components/panel';
import { need, scopeOf } from '../lib/access';
import { useUrlState } from '../lib/url-state';
import { ImportProgress } from './import-progress';

type Source = ImportRequest['source'];

const SOURCES: Record<Source, { label: string; address: string; placeholder: string; says: string }> = {
  warehouse: {
    label: 'A warehouse',
    address: 'Directory of the warehouse',
    placeholder: 's3://lake/warehouse',
    says: 'Directories with Iceberg metadata become tables, named after their location.',
  },
  rest: {
    label: 'A REST catalog',
    address: 'Address of the catalog',
    placeholder: 'https://catalog.example.org/iceberg',
    says: 'Imports every namespace, table and view of another Iceberg REST catalog.',
  },
  hive: {
    label: 'A Hive Metastore',
    address: 'Address of the metastore',
    placeholder: 'thrift://localhost:9083',
    says: 'Imports its Iceberg tables and views. To take over its other tables, upgrade them under Hive.',
  },
};

/** Tables that are somewhere already: first what would happen to each, then the import, in one place. */
export function ImportPage() {
  const { catalog = '' } = useParams();
  const [get, set] = useUrlState();
  const [request, setRequest] = useState<ImportRequest | null>(null);
  const operation = get('operation');
  const start = useMutation({
    mutationFn: (body: ImportRequest) => answered(api.POST('/catalogs/{catalog}/imports', { params: { path: { catalog } }, body })),
    onSuccess: (started, body) => {
      setRequest(body);
      set({ operation: started.id });
    },
  });
  return (
    <Page title={`Import tables into ${catalog}`} sub="Registers Iceberg tables where they are. No file is copied, moved or changed.">
      {operation === undefined ? (
        <Form catalog={catalog} known={request} start={(body) => start.mutate(body)} starting={start.isPending} problem={start.error} />
      ) : (
        <ImportProgress
          key={operation}
          id={operation}
          catalog={catalog}
          again={() => set({ operation: undefined })}
          begin={request === null ? null : () => start.mutate({ ...request, dry_run: false })}
          problem={start.error}
        />
      )}
    </Page>
  );
}

interface FormProps {
  catalog: string;
  known: ImportRequest | null;
  start: (body: ImportRequest) => void;
  starting: boolean;
  problem: unknown;
}

function Form({ catalog, known, start, starting, problem }: FormProps) {
  const [body, setBody] = useState<ImportRequest>(known ?? { source: 'warehouse', address: '' });
  const change = (changes: Partial<ImportRequest>) => setBody((before) => ({ ...before, ...changes }));
  const source = SOURCES[body.source];
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    start({ ...asked(body), dry_run: true });
  };
  return (
    <Panel>
      <form onSubmit={submit} className="stack" style={{ maxWidth: 720 }}>
        <Choice
          label="where to import from"
          value={body.source}
          set={(value) => change({ source: value as Source })}
          options={Object.entries(SOURCES).map(([value, { label }]) => ({ value, label }))}
        />
        <TextInput
          label={source.address}
          description={source.says}
          placeholder={source.placeholder}
          value={body.address}
          onChange={(event) => change({ address: event.currentTarget.value })}
          classNames={{ input: 'mono' }}
        />
        {body.source === 'rest' && <RestOptions body={body} change={change} />}
        <Which body={body} change={change} />
        <Note tone="info" title="Stop the other catalog’s writers first">
          The other catalog still knows these tables after the import. Two catalogs that commit to
          one table lose data.
        </Note>
        {problem !== null && problem !== undefined && <ProblemNote error={problem} />}
        <ActionButton type="submit" needs={need(scopeOf(catalog), 'read', 'create', 'drop', 'maintain')} loading={starting} disabledReason={body.address.trim() === '' ? 'Enter the source.' : null} style={{ alignSelf: 'flex-start' }}>
          Scan
        </ActionButton>
      </form>
    </Panel>
  );
}

interface PartProps {
  body: ImportRequest;
  change: (changes: Partial<ImportRequest>) => void;
}

function RestOptions({ body, change }: PartProps) {
  return (
    <>
      <TextInput
        label="Warehouse"
        description="Optional: what the other catalog's engines set as warehouse"
        value={body.warehouse ?? ''}
        onChange={(event) => change({ warehouse: event.currentTarget.value })}
        classNames={{ input: 'mono' }}
      />
      <PasswordInput
        label="Token"
        description="Optional: kept while the import runs, never shown"
        autoComplete="off"
        value={body.token ?? ''}
        onChange={(event) => change({ token: event.currentTarget.value })}
      />
      <PasswordInput
        label="Credential"
        description="Or CLIENT_ID:CLIENT_SECRET, which Firn exchanges for a token"
        autoComplete="off"
        value={body.credential ?? ''}
        onChange={(event) => change({ credential: event.currentTarget.value })}
      />
    </>
  );
}

function Which({ body, change }: PartProps) {
  return (
    <>
      <TextInput
        label="Include"
        description="Optional: patterns such as sales.*, separated by commas"
        value={body.include?.join(',') ?? ''}
        onChange={(event) => change({ include: event.currentTarget.value.split(',') })}
        classNames={{ input: 'mono' }}
      />
      <TextInput
        label="Exclude"
        value={body.exclude?.join(',') ?? ''}
        onChange={(event) => change({ exclude: event.currentTarget.value.split(',') })}
        classNames={{ input: 'mono' }}
      />
      <TextInput
        label="Target namespace"
        description="Optional: a parent namespace for all imported tables"
        value={body.into ?? ''}
        onChange={(event) => change({ into: event.currentTarget.value })}
        classNames={{ input: 'mono' }}
      />
      <Checkbox
        size="xs"
        label="Replace existing tables of the same name; their files stay"
        checked={body.overwrite ?? false}
        onChange={(event) => change({ overwrite: event.currentTarget.checked })}
      />
      <Checkbox
        size="xs"
        label="Update tables that were imported before"
        checked={body.refresh ?? false}
        onChange={(event) => change({ refresh: event.currentTarget.checked })}
      />
    </>
  );
}

function given(text: string | null | undefined): string | null {
  const trimmed = (text ?? '').trim();
  return trimmed === '' ? null : trimmed;
}

/** Without what was left empty, and without what the kind of source has not. */
function asked(body: ImportRequest): ImportRequest {
  const patterns = (typed: string[] | undefined) => (typed ?? []).map((item) => item.trim()).filter((item) => item !== '');
  const rest = body.source === 'rest';
  return {
    source: body.source,
    address: body.address.trim(),
    warehouse: rest ? given(body.warehouse) : null,
    token: rest ? given(body.token) : null,
    credential: rest ? given(body.credential) : null,
    into: given(body.into),
    include: patterns(body.include),
    exclude: patterns(body.exclude),
    overwrite: body.overwrite ?? false,
    refresh: body.refresh ?? false,
  };
}
