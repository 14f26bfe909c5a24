import { ActionIcon, Autocomplete } from '@mantine/core';
import { IconX } from '@tabler/icons-react';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';
import { Link, useNavigate, useParams } from 'react-router';

import { answered, api } from '../../api/client';
import { principals, role as roleQuery } from '../../api/access';
import { ActionButton } from '../../components/action-button';
import { ConfirmDialog, useDo } from '../../components/confirm-dialog';
import { When } from '../../components/figures';
import { useMe } from '../../components/current-user';
import { ProblemNote } from '../../components/notes';
import { Panel } from '../../components/panel';
import { paths } from '../../lib/paths';
import { firn } from '../../lib/terminal';
import styles from './access.module.css';
import { AccessFrame } from './frame';
import { Grants } from './grants';

/** One role: what it gives, and who has it. */
export function RolePage() {
  const { role: name = '' } = useParams();
  const { data, error } = useQuery(roleQuery(name));
  const { admin } = useMe();
  const navigate = useNavigate();
  const [dropping, drop] = useState(false);
  if (data === undefined) return <AccessFrame>{error ? <ProblemNote error={error} /> : <Panel>…</Panel>}</AccessFrame>;
  const why = data.builtin ? 'Built-in roles cannot be changed.' : admin ? null : 'Only administrators drop roles.';
  return (
    <AccessFrame
      actions={
        <ActionButton variant="default" disabledReason={why} onClick={() => drop(true)}>
          Drop role
        </ActionButton>
      }
    >
      <div className="row row-wrap">
        <Link to={paths.roles()}>Roles</Link>
        <span className="dim">/</span>
        <b className="mono">{data.name}</b>
        <span className="dim">
          {data.description}
          {data.builtin ? ' · built in' : ''} · created <When at={data.created_at} />
        </span>
      </div>
      <Grants role={data} />
      <Members role={data.name} members={data.members} />
      <ConfirmDialog
        title={`Drop ${data.name}`}
        opened={dropping}
        close={() => drop(false)}
        yes="Drop it"
        danger
        command={firn('role drop', [data.name])}
        act={() => answered(api.DELETE('/roles/{role}', { params: { path: { role: data.name } } }))}
        done={() => void navigate(paths.roles())}
      >
        It is taken from {takenFrom(data.members)}. Its grants are gone; this cannot be
        undone.
      </ConfirmDialog>
    </AccessFrame>
  );
}

function takenFrom(members: string[] | null): string {
  if (members === null) return 'all members';
  return members.length === 0 ? 'none: the role has no members' : members.join(', ');
}

function Members({ role, members }: { role: string; members: string[] | null }) {
  if (members === null) {
    return (
      <Panel title="Members">
        <span className="dim">Only users who may grant this role see its members.</span>
      </Panel>
    );
  }
  return (
    <Panel title="Members">
      <div className="stack">
        {members.length === 0 && <span className="dim">Nobody yet.</span>}
        <div className={styles.members}>
          {members.map((name) => (
            <Member key={name} role={role} name={name} />
          ))}
        </div>
        <AddMember role={role} members={members} />
      </div>
    </Panel>
  );
}

function Member({ role, name }: { role: string; name: string }) {
  const take = useDo(`cannot take ${role} from ${name}`, () => answered(api.DELETE('/roles/{role}/members/{name}', { params: { path: { role, name } } })));
  return (
    <span className={`${styles.member ?? ''} mono`}>
      {name}
      <ActionIcon size="xs" aria-label={`take ${role} from ${name}`} loading={take.isPending} onClick={() => take.mutate()}>
        <IconX size={12} />
      </ActionIcon>
    </span>
  );
}

function AddMember({ role, members }: { role: string; members: string[] }) {
  const { admin } = useMe();
  const users = useInfiniteQuery(principals('users', admin));
  const services = useInfiniteQuery(principals('services', admin));
  const known = [users, services].flatMap((found) => found.data?.pages.flatMap((page) => page.items) ?? []).map((item) => item.name);
  const [name, setName] = useState('');
  const give = useDo(`cannot give ${role}`, async () => {
    await answered(api.PUT('/roles/{role}/members/{name}', { params: { path: { role, name: name.trim() } } }));
    setName('');
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (name.trim() !== '') give.mutate();
  };
  return (
    <form onSubmit={submit} className="row">
      <Autocomplete
        size="xs"
        aria-label="name of a user or service"
        placeholder="A user or service"
        data={known.filter((item) => !members.includes(item))}
        limit={20}
        value={name}
        onChange={setName}
      />
      <ActionButton type="submit" variant="default" loading={give.isPending} disabledReason={name.trim() === '' ? 'Enter a user or service.' : null}>
        Give the role
      </ActionButton>
    </form>
  );
}
