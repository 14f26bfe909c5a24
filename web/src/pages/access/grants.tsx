import { Checkbox, MultiSelect, Select, TextInput, Tooltip } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { answered, api } from '../../api/client';
import { catalogs } from '../../api/queries';
import type { Role } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { useDo } from '../../components/confirm-dialog';
import { useMe, useWhyNot } from '../../components/current-user';
import { Empty } from '../../components/notes';
import { Panel } from '../../components/panel';
import { impliedBy, PRIVILEGES, scopeText, type Privilege, type Scope } from '../../lib/access';
import { partsOf } from '../../lib/names';
import styles from './access.module.css';

const MEANS: Record<Privilege, string> = {
  list: 'see that it exists, and everything in it',
  read: 'load tables and views, as engines do to read data',
  write: 'commit to tables, change properties, tag, roll back',
  create: 'create namespaces, tables and views inside it',
  drop: 'drop it and everything in it',
  maintain: 'run jobs now, set policies and protection, sync with Hive',
  grant: 'grant one’s own privileges there to others',
};

/** What the role gives, as a matrix: a row for each thing, a column for each privilege. */
export function Grants({ role }: { role: Role }) {
  return (
    <Panel flush title="Privileges" aside={<span className="dim">a grant includes everything in its scope</span>}>
      {role.grants.length === 0 ? (
        <Empty title="No privileges yet">Choose privileges and their scope below.</Empty>
      ) : (
        <table className={styles.matrix} aria-label={`grants of ${role.name}`}>
          <thead>
            <tr>
              <th scope="col">On</th>
              {PRIVILEGES.map((item) => (
                <th key={item} scope="col" title={MEANS[item]}>
                  {item}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {role.grants.map(({ on }) => (
              <tr key={scopeText(on)}>
                <th scope="row">
                  <ScopeName on={on} />
                </th>
                {PRIVILEGES.map((item) => (
                  <td key={item}>
                    <Cell role={role} privilege={item} on={on} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {!role.builtin && <AddGrant role={role} />}
    </Panel>
  );
}

function ScopeName({ on }: { on: Scope }) {
  if (on.catalog === null) return <>the server</>;
  const what = on.table !== null ? 'table' : on.namespace.length > 0 ? 'namespace' : 'catalog';
  return (
    <>
      <span className="mono">{scopeText(on)}</span> <span className="dim">{what}</span>
    </>
  );
}

const body = (on: Scope, privileges: Privilege[]) => ({
  on: { catalog: on.catalog, namespace: [...on.namespace], table: on.table },
  privileges,
});

/** Granted, brought along by another grant, or neither; pressed, it changes. */
function Cell({ role, privilege, on }: { role: Role; privilege: Privilege; on: Scope }) {
  const whyNot = useWhyNot();
  const granted = role.grants.some((grant) => scopeText(grant.on) === scopeText(on) && grant.privileges.includes(privilege));
  const implied = granted ? null : impliedBy(role.grants, { privilege, on });
  const path = { params: { path: { role: role.name } }, body: body(on, [privilege]) };
  const change = useDo(`cannot change ${role.name}`, () =>
    answered(granted ? api.POST('/roles/{role}/grants/revoke', path) : api.POST('/roles/{role}/grants', path)),
  );
  const reason = role.builtin ? 'Built-in roles cannot be changed.' : whyNot({ privilege: 'grant', on }, { privilege, on });
  const says = reason ?? implied ?? MEANS[privilege];
  return (
    <Tooltip label={says} events={{ hover: true, focus: true, touch: true }}>
      <span className={styles.box}>
        <Checkbox
          size="xs"
          aria-label={`${privilege} on ${scopeText(on)}`}
          aria-description={says}
          checked={granted}
          indeterminate={implied !== null}
          disabled={change.isPending}
          aria-disabled={reason !== null}
          onChange={() => reason === null && change.mutate()}
        />
      </span>
    </Tooltip>
  );
}

const SERVER_CHOICE = { value: '', label: 'the whole server' };

function AddGrant({ role }: { role: Role }) {
  const { admin } = useMe();
  const whyNot = useWhyNot();
  const { data } = useQuery(catalogs());
  const names = (data ?? []).map((item) => ({ value: item.name, label: item.name }));
  const [chosen, choose] = useState<string | null>(null);
  const [namespace, setNamespace] = useState('');
  const [table, setTable] = useState('');
  const [privileges, setPrivileges] = useState<string[]>(['read']);
  const catalog = chosen ?? names[0]?.value ?? '';
  const inNamespace = namespace.trim() === '' ? [] : partsOf(namespace.trim());
  const on: Scope = {
    catalog: catalog === '' ? null : catalog,
    namespace: catalog === '' ? [] : inNamespace,
    table: catalog === '' || table.trim() === '' ? null : table.trim(),
  };
  const wanted = privileges as Privilege[];
  const grant = useDo(`cannot grant to ${role.name}`, () =>
    answered(api.POST('/roles/{role}/grants', { params: { path: { role: role.name } }, body: body(on, wanted) })),
  );
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    grant.mutate();
  };
  const missing =
    wanted.length === 0
      ? 'Choose a privilege.'
      : on.table !== null && on.namespace.length === 0
        ? 'Enter the namespace of the table.'
        : whyNot({ privilege: 'grant', on }, ...wanted.map((privilege) => ({ privilege, on })));
  return (
    <form onSubmit={submit} className={styles.form}>
      <Select label="Catalog" w={150} value={catalog} onChange={choose} data={admin ? [...names, SERVER_CHOICE] : names} />
      <TextInput label="Namespace" placeholder="all" w={150} value={namespace} disabled={catalog === ''} onChange={(event) => setNamespace(event.currentTarget.value)} classNames={{ input: 'mono' }} />
      <TextInput label="Table or view" placeholder="all" w={150} value={table} disabled={catalog === ''} onChange={(event) => setTable(event.currentTarget.value)} classNames={{ input: 'mono' }} />
      <MultiSelect label="Privileges" miw={200} data={[...PRIVILEGES]} value={privileges} onChange={setPrivileges} />
      <ActionButton type="submit" loading={grant.isPending} disabledReason={missing}>
        Grant
      </ActionButton>
    </form>
  );
}
