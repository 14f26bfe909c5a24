import { Button, Modal, NumberInput, Select, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { answered, api } from '../../api/client';
import { launch as launchQuery } from '../../api/queries';
import type { Launch } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { InTerminal } from '../../components/in-terminal';
import { ProblemNote } from '../../components/notes';
import { Snippet } from '../../components/snippet';
import { firn } from '../../lib/terminal';

const KINDS = [
  { value: 'none', label: 'people start them' },
  { value: 'local', label: 'on the server’s machine' },
  { value: 'spark-submit', label: 'spark-submit, on a cluster' },
];
const LISTS = ['jars', 'file_systems'] as const;
const TEXTS = [
  'memory',
  'master',
  'archive',
  'queue',
  'principal',
  'keytab',
  'proxy_user',
  'image',
  'namespace',
  'service_account',
  'application',
] as const;
const COUNTS = [
  { name: 'slots', label: 'Jobs at once', min: 1 },
  { name: 'streams', label: 'Streams at once', min: 0 },
  { name: 'sql', label: 'Queries at once', min: 0 },
] as const;
type CountField = (typeof COUNTS)[number]['name'];
type Field = (typeof TEXTS)[number] | (typeof LISTS)[number];

const FIELDS: { name: Field; label: string; on: (master: string) => boolean; placeholder?: string }[] = [
  { name: 'master', label: 'Master', on: () => true, placeholder: 'yarn or k8s://https://…' },
  { name: 'memory', label: 'Memory of the driver', on: () => true },
  { name: 'archive', label: 'Package', on: isCluster, placeholder: 'hdfs:///apps/firn/firn.zip' },
  { name: 'jars', label: 'Jars, separated by commas', on: isCluster },
  { name: 'queue', label: 'Queue', on: (master) => master === 'yarn' },
  { name: 'principal', label: 'Kerberos principal', on: isCluster },
  { name: 'keytab', label: 'Keytab on the server’s machine', on: isCluster },
  { name: 'proxy_user', label: 'Works as the user', on: isCluster },
  { name: 'file_systems', label: 'Further file systems, separated by commas', on: isCluster },
  { name: 'image', label: 'Image', on: isKubernetes },
  { name: 'namespace', label: 'Namespace', on: isKubernetes },
  { name: 'service_account', label: 'Service account', on: isKubernetes },
  { name: 'application', label: 'Application', on: isCluster, placeholder: 'the server’s own' },
];

function isKubernetes(master: string) {
  return master.startsWith('k8s://');
}

function isCluster(master: string) {
  return master === 'yarn' || isKubernetes(master);
}

/** How the server starts a group's optimizers. Spark's further settings and the environment are set by the command line. */
export function LaunchForm({ group, close }: { group: string; close: () => void }) {
  const launch = useQuery(launchQuery(group));
  return (
    <Modal opened onClose={close} title={`Launch of group ${group}`} closeButtonProps={{ 'aria-label': 'close' }}>
      {launch.error && <ProblemNote error={launch.error} />}
      {launch.data && <Fields group={group} launch={launch.data} close={close} />}
    </Modal>
  );
}

function Fields({ group, launch, close }: { group: string; launch: Launch; close: () => void }) {
  const queries = useQueryClient();
  const [kind, setKind] = useState<string>(launch.kind);
  const [mode, setMode] = useState<string>(launch.deploy_mode ?? 'client');
  const [values, setValues] = useState(() => valuesOf(launch));
  const [counts, setCounts] = useState<Record<CountField, number>>({ slots: launch.slots ?? 2, streams: launch.streams ?? 0, sql: launch.sql ?? 0 });
  const params = { path: { group } };
  const body = () => ({ ...changesOf(kind, mode, values), ...counts });
  const preview = useMutation({ mutationFn: () => answered(api.POST('/groups/{group}/launch/dry-run', { params, body: body() })) });
  const save = useMutation({
    mutationFn: () => answered(api.PATCH('/groups/{group}/launch', { params, body: body() })),
    onSuccess: async () => {
      await queries.invalidateQueries();
      close();
    },
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const shown = kind === 'spark-submit' ? FIELDS.filter(({ on }) => on(values.master)) : FIELDS.filter(({ name }) => kind === 'local' && name === 'memory');
  const error = save.error ?? preview.error;
  return (
    <form onSubmit={submit} className="stack">
      <Select size="xs" label="Started by" data={KINDS} value={kind} onChange={(value) => setKind(value ?? 'none')} allowDeselect={false} />
      {kind !== 'none' && (
        <div className="row">
          {COUNTS.map(({ name, label, min }) => (
            <NumberInput
              key={name}
              size="xs"
              label={label}
              min={min}
              max={256}
              allowDecimal={false}
              value={counts[name]}
              onChange={(value) => setCounts({ ...counts, [name]: Number(value) })}
              style={{ flex: '1 1 8rem' }}
            />
          ))}
        </div>
      )}
      {shown.map(({ name, label, placeholder }) => (
        <TextInput
          key={name}
          size="xs"
          label={label}
          placeholder={placeholder}
          value={values[name]}
          onChange={(event) => setValues({ ...values, [name]: event.currentTarget.value })}
        />
      ))}
      {kind === 'spark-submit' && (
        <Select
          size="xs"
          label="The driver runs"
          data={[
            { value: 'client', label: 'on the server’s machine' },
            { value: 'cluster', label: 'on the cluster' },
          ]}
          value={mode}
          onChange={(value) => setMode(value ?? 'client')}
          allowDeselect={false}
        />
      )}
      <InTerminal command={firn('group launch', [group], { kind, set: settingsOf(launch, body()) })} />
      {error && <ProblemNote error={error} />}
      {preview.data && <Snippet label="command of the launch" code={preview.data.arguments.join('\n')} />}
      {Object.entries(preview.data?.files ?? {}).map(([name, text]) => (
        <Snippet key={name} label={name} code={text.trimEnd()} />
      ))}
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <Button variant="default" onClick={() => preview.mutate()} loading={preview.isPending} disabled={kind === 'none'}>
          Show command
        </Button>
        <ActionButton type="submit" loading={save.isPending}>
          Save
        </ActionButton>
      </div>
    </form>
  );
}

function valuesOf(launch: Launch): Record<Field, string> {
  const texts = TEXTS.map((name) => [name, launch[name] ?? ''] as const);
  const lists = LISTS.map((name) => [name, (launch[name] ?? []).join(',')] as const);
  return Object.fromEntries([...texts, ...lists]) as Record<Field, string>;
}

/** KEY=VALUE for each setting that changes; KEY= removes one. */
function settingsOf(launch: Launch, changes: ReturnType<typeof changesOf> & Record<CountField, number>): string[] {
  const textOf = (value: string | number | readonly string[] | null | undefined) => (Array.isArray(value) ? value.join(',') : String(value ?? ''));
  return Object.entries(changes)
    .filter(([name, value]) => name !== 'kind' && textOf(value) !== textOf(launch[name as keyof typeof changes]))
    .map(([name, value]) => `${name}=${textOf(value)}`);
}

/** A setting that does not fit the master is removed: the form does not show it, and the server would refuse it. */
function changesOf(kind: string, mode: string, values: Record<Field, string>) {
  const master = kind === 'local' ? 'local[*]' : values.master.trim();
  const removed = new Set(FIELDS.filter(({ on }) => kind !== 'none' && !on(master)).map(({ name }) => name));
  const text = (name: Field) => (removed.has(name) || values[name].trim() === '' ? null : values[name].trim());
  const list = (name: Field) => (text(name) ?? '').split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]));
  return {
    kind: kind as Launch['kind'],
    deploy_mode: kind === 'local' ? ('client' as const) : (mode as 'client' | 'cluster'),
    memory: values.memory.trim(),
    master,
    jars: list('jars'),
    file_systems: list('file_systems'),
    archive: text('archive'),
    queue: text('queue'),
    principal: text('principal'),
    keytab: text('keytab'),
    proxy_user: text('proxy_user'),
    image: text('image'),
    namespace: text('namespace'),
    service_account: text('service_account'),
    application: text('application'),
  };
}
