import { Menu, ActionIcon } from '@mantine/core';
import { IconDots, IconPlus } from '@tabler/icons-react';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { answered, api } from '../../api/client';
import { principals } from '../../api/access';
import type { Principal } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { ConfirmDialog, useDo } from '../../components/confirm-dialog';
import { Choice } from '../../components/choice';
import { DataTable, type Column } from '../../components/data-table';
import { When } from '../../components/figures';
import { DISABLED, HEALTHY, Mark } from '../../components/status-icons';
import { useMe } from '../../components/current-user';
import { Empty } from '../../components/notes';
import { paths } from '../../lib/paths';
import { useUrlState } from '../../lib/url-state';
import { CreatePrincipal } from './create-principal';
import { AccessFrame, AdminsOnly } from './frame';
import { RolesOf } from './roles-of';
import { ShowOnce, type Shown } from './secret';
import { RoleTags } from './tags';

type Kind = 'users' | 'services';
/** What is asked about one of the list. */
interface Asked {
  what: 'roles' | 'disable' | 'drop' | 'secret';
  one: Principal;
}

const KINDS = [
  { value: 'users', label: 'People' },
  { value: 'services', label: 'Services' },
];

const ofKind = (one: Principal): Kind => (one.kind === 'person' ? 'users' : 'services');

/** Who may be given roles: people, and programs such as engines. */
export function PeoplePage() {
  const { admin } = useMe();
  const [get, set] = useUrlState();
  const kind: Kind = get('kind') === 'services' ? 'services' : 'users';
  const [creating, create] = useState(false);
  const [asked, ask] = useState<Asked | undefined>();
  const [shown, show] = useState<Shown | undefined>();
  const found = useInfiniteQuery(principals(kind, admin));
  const label = kind === 'users' ? 'Create user' : 'Create service';
  return (
    <AccessFrame
      actions={
        <ActionButton leftSection={<IconPlus size={14} />} disabledReason={admin ? null : 'Only administrators create users and services.'} onClick={() => create(true)}>
          {label}
        </ActionButton>
      }
    >
      {!admin && <AdminsOnly what="people and services" />}
      {admin && (
        <>
          <div className="row">
            <Choice label="people or services" value={kind} set={(value) => set({ kind: value === 'users' ? undefined : value })} options={KINDS} />
          </div>
          <DataTable
            name={kind === 'users' ? 'people' : 'services'}
            columns={columns(ask)}
            rows={found.data?.pages.flatMap((page) => page.items)}
            error={found.error}
            id={(one) => one.name}
            more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
            empty={
              <Empty title={kind === 'users' ? 'No users yet' : 'No services yet'}>
                {kind === 'users' ? 'Users appear here when they sign in at the issuer.' : 'An engine is a service: it gets tokens with a client id and a secret.'}
              </Empty>
            }
          />
          {creating && <CreatePrincipal kind={kind} close={() => create(false)} made={show} />}
          <Questions asked={asked} close={() => ask(undefined)} show={show} />
          <ShowOnce shown={shown} close={() => show(undefined)} />
        </>
      )}
    </AccessFrame>
  );
}

function columns(ask: (asked: Asked) => void): Column<Principal>[] {
  return [
    { key: 'name', title: 'Name', cell: (one) => <span className="mono">{one.name}</span> },
    { key: 'state', title: 'State', cell: (one) => <Mark look={one.disabled ? DISABLED : { ...HEALTHY, says: 'enabled' }} /> },
    { key: 'roles', title: 'Roles', cell: (one) => <RoleTags roles={one.roles} />, wide: true },
    { key: 'in', title: 'Authentication', cell: (one) => <span className="dim">{waysIn(one)}</span> },
    { key: 'subject', title: 'Subject', cell: (one) => <span className="mono dim">{one.subject ?? '–'}</span>, extra: true },
    { key: 'created', title: 'Created', cell: (one) => <When at={one.created_at} />, right: true },
    { key: 'act', title: '', cell: (one) => <Actions one={one} ask={ask} />, right: true },
  ];
}

function waysIn(one: Principal): string {
  if (one.kind === 'service') return 'secret and tokens';
  return one.issuer === null ? 'tokens' : new URL(one.issuer).host;
}

function Actions({ one, ask }: { one: Principal; ask: (asked: Asked) => void }) {
  const me = useMe();
  const navigate = useNavigate();
  const enable = useDo(`cannot enable ${one.name}`, () => answered(api.POST(`/${ofKind(one)}/{name}/enable`, { params: { path: { name: one.name } } })));
  const self = one.name === me.name ? ': that is you' : '';
  return (
    <span className="row" style={{ gap: 6, justifyContent: 'flex-end' }}>
      <ActionButton size="compact-xs" variant="default" aria-label={`Roles of ${one.name}`} onClick={() => ask({ what: 'roles', one })}>
        Roles…
      </ActionButton>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon size="sm" aria-label={`more about ${one.name}`}>
            <IconDots size={15} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => void navigate(`${paths.tokens()}?owner=${encodeURIComponent(one.name)}`)}>Tokens</Menu.Item>
          <Menu.Item onClick={() => void navigate(paths.audit({ who: one.name }))}>Audit log</Menu.Item>
          {one.kind === 'service' && <Menu.Item onClick={() => ask({ what: 'secret', one })}>New client secret…</Menu.Item>}
          <Menu.Divider />
          {one.disabled ? (
            <Menu.Item onClick={() => enable.mutate()}>Enable</Menu.Item>
          ) : (
            <Menu.Item disabled={self !== ''} onClick={() => ask({ what: 'disable', one })}>
              Disable…{self}
            </Menu.Item>
          )}
          <Menu.Item disabled={self !== ''} onClick={() => ask({ what: 'drop', one })}>
            Drop…{self}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </span>
  );
}

interface QuestionsProps {
  asked: Asked | undefined;
  close: () => void;
  show: (shown: Shown) => void;
}

function Questions({ asked, close, show }: QuestionsProps) {
  if (asked === undefined) return null;
  const { what, one } = asked;
  const at = { params: { path: { name: one.name } } };
  if (what === 'roles') return <RolesOf one={one} close={close} />;
  if (what === 'disable') {
    return (
      <ConfirmDialog title={`Disable ${one.name}`} opened close={close} yes="Disable" danger act={() => answered(api.POST(`/${ofKind(one)}/{name}/disable`, at))}>
        None of the tokens of {one.name} opens anything until they are enabled again. Roles stay.
      </ConfirmDialog>
    );
  }
  if (what === 'drop') {
    return (
      <ConfirmDialog title={`Drop ${one.name}`} opened close={close} yes="Drop" danger act={() => answered(api.DELETE(`/${ofKind(one)}/{name}`, at))}>
        {one.name} and all their tokens are gone. This cannot be undone.
        {one.issuer !== null && ' A user who can still sign in at the issuer is created again: disable the user instead.'}
      </ConfirmDialog>
    );
  }
  const renew = async () => {
    const made = await answered(api.POST('/services/{name}/secret', at));
    show({ title: `The new secret of ${one.name}`, secret: `${made.client_id}:${made.client_secret}`, says: 'Engines take it as their credential.' });
  };
  return (
    <ConfirmDialog title={`New client secret for ${one.name}`} opened close={close} yes="Make a new secret" danger act={renew}>
      The old secret and every token of {one.name} end at once: engines that use them are refused until they have the new one.
    </ConfirmDialog>
  );
}
