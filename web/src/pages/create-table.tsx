import { ActionIcon, Autocomplete, Checkbox, Modal, Select, TextInput } from '@mantine/core';
import { IconPlus, IconTrash } from '@tabler/icons-react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';
import { useNavigate } from 'react-router';

import { answered, api } from '../api/client';
import { ActionButton } from '../components/action-button';
import { InTerminal } from '../components/in-terminal';
import { LogFields } from '../components/log-fields';
import { ProblemNote } from '../components/notes';
import { logProperties, missingInLog, pairsOf, type LogDraft } from '../lib/log';
import { partsOf } from '../lib/names';
import { need, scopeOf } from '../lib/access';
import { paths } from '../lib/paths';
import { firn } from '../lib/terminal';
import styles from './create-table.module.css';

/** A list that opens in the dialog belongs to it, for the keyboard and for those who listen. */
const IN_DIALOG = { withinPortal: false, floatingStrategy: 'fixed' } as const;
const TYPES = ['long', 'int', 'string', 'timestamp', 'timestamptz', 'date', 'double', 'float', 'boolean', 'decimal(18,2)', 'binary', 'uuid'];

interface Draft {
  id: number;
  name: string;
  type: string;
  key: boolean;
}

const FIRST: Draft[] = [
  { id: 0, name: 'id', type: 'long', key: true },
  { id: 1, name: '', type: 'string', key: false },
];

interface CreateTableProps {
  catalog: string;
  namespace: string;
  opened: boolean;
  close: () => void;
}

/** A new table: with a key it is a keyed one. */
export function CreateTable({ catalog, namespace, opened, close }: CreateTableProps) {
  return (
    <Modal opened={opened} onClose={close} title="Create table" size="lg" closeButtonProps={{ 'aria-label': 'close' }}>
      <Form catalog={catalog} namespace={namespace} close={close} />
    </Modal>
  );
}

function Form({ catalog, namespace, close }: Omit<CreateTableProps, 'opened'>) {
  const [name, setName] = useState(namespace === '' ? '' : `${namespace}.`);
  const [columns, setColumns] = useState<Draft[]>(FIRST);
  const [partition, setPartition] = useState('');
  const [sequence, setSequence] = useState('');
  const [typedLog, setLog] = useState<LogDraft | null>(null);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const named = columns.filter((column) => column.name.trim() !== '');
  const keys = named.filter((column) => column.key).map((column) => column.name.trim());
  const log = keys.length === 0 ? null : typedLog; // only a keyed table has one
  const partitions = partition
    .split(/,(?![^(]*\))/)
    .map((part) => part.trim())
    .filter((part) => part !== '');
  // A name with a comma or a space cannot stand in --columns.
  const isPlain = named.every((column) => /^\w+$/.test(column.name.trim()));
  const create = useMutation({
    mutationFn: () =>
      answered(
        api.POST('/catalogs/{catalog}/tables', {
          params: { path: { catalog } },
          body: {
            name: name.trim(),
            columns: named.map((column) => ({ name: column.name.trim(), type: column.type.trim() })),
            primary_key: keys,
            sequence_field: sequence === '' ? null : sequence,
            partition_by: partitions,
            properties: logProperties(log),
          },
        }),
      ),
    onSuccess: async () => {
      await queries.invalidateQueries();
      close();
      await navigate(paths.table(catalog, name.trim()));
    },
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    create.mutate();
  };
  return (
    <form onSubmit={submit} className="stack">
      <TextInput
        label="Name"
        description="DATABASE.TABLE; a missing database is created"
        placeholder="shop.orders"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        classNames={{ input: 'mono' }}
        data-autofocus
      />
      <Columns columns={columns} set={setColumns} />
      <TextInput
        label="Partition by"
        description="Optional: columns or transforms, such as day(ordered_at), bucket(16, id)"
        value={partition}
        onChange={(event) => setPartition(event.currentTarget.value)}
        classNames={{ input: 'mono' }}
      />
      {keys.length > 0 && (
        <Select
          label="Sequence field"
          description="Optional: for changes of the same key, the higher value wins, however late it arrives"
          value={sequence}
          onChange={(value) => setSequence(value ?? '')}
          comboboxProps={IN_DIALOG}
          data={[{ value: '', label: 'none: the later commit wins' }, ...named.filter((column) => !column.key).map((column) => column.name)]}
        />
      )}
      {keys.length > 0 && <LogFields inDialog log={log} change={setLog} />}
      {missing(name, named, log) === null && isPlain && (
        <InTerminal
          command={firn('table create', [name.trim()], {
            catalog,
            columns: named.map((column) => `${column.name.trim()} ${column.type.trim()}`).join(', '),
            'primary-key': keys.join(','),
            'sequence-field': sequence,
            'partition-by': partitions,
            property: pairsOf(logProperties(log)),
          })}
        />
      )}
      {create.error && <ProblemNote error={create.error} />}
      <div className="row spread">
        <span className="dim" style={{ fontSize: 13 }}>
          {keys.length === 0 ? 'No primary key' : `Primary key: ${keys.join(', ')}`}
        </span>
        <ActionButton type="submit" style={{ flexShrink: 0 }} needs={need(scopeOf(catalog, partsOf(name.trim()).slice(0, -1)), 'create')} loading={create.isPending} disabledReason={missing(name, named, log)}>
          {keys.length === 0 ? 'Create plain table' : 'Create keyed table'}
        </ActionButton>
      </div>
    </form>
  );
}

function missing(name: string, columns: Draft[], log: LogDraft | null): string | null {
  if (!/^[^.\s]+(\.[^.\s]+)+$/.test(name.trim())) return 'Enter a name such as DATABASE.TABLE.';
  return columns.length === 0 ? 'Name at least one column.' : missingInLog(log);
}

function Columns({ columns, set }: { columns: Draft[]; set: (columns: Draft[]) => void }) {
  const change = (id: number, changes: Partial<Draft>) =>
    set(columns.map((column) => (column.id === id ? { ...column, ...changes } : column)));
  const add = () => set([...columns, { id: Math.max(-1, ...columns.map((column) => column.id)) + 1, name: '', type: 'string', key: false }]);
  return (
    <fieldset className={styles.columns}>
      <legend>Columns</legend>
      {columns.map((column, index) => (
        <div key={column.id} className={styles.column}>
          <TextInput
            aria-label={`name of column ${index + 1}`}
            placeholder="name"
            value={column.name}
            onChange={(event) => change(column.id, { name: event.currentTarget.value })}
            classNames={{ input: 'mono' }}
          />
          <Autocomplete
            aria-label={`type of column ${index + 1}`}
            size="xs"
            data={TYPES}
            value={column.type}
            onChange={(type) => change(column.id, { type })}
            classNames={{ input: 'mono' }}
            comboboxProps={IN_DIALOG}
          />
          <Checkbox
            size="xs"
            label="key"
            aria-label={`column ${index + 1} is part of the key`}
            checked={column.key}
            onChange={(event) => change(column.id, { key: event.currentTarget.checked })}
          />
          <ActionIcon size="sm" aria-label={`remove column ${index + 1}`} onClick={() => set(columns.filter((item) => item.id !== column.id))}>
            <IconTrash size={14} />
          </ActionIcon>
        </div>
      ))}
      <ActionButton variant="subtle" size="compact-xs" leftSection={<IconPlus size={13} />} onClick={add} style={{ alignSelf: 'flex-start' }}>
        Column
      </ActionButton>
    </fieldset>
  );
}
