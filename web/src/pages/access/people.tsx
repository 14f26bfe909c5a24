import { Menu, ActionIcon } from '@mantine/core';
import { IconDots, IconPlus } from '@tabler/icons-react';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { answered, api } from '../../api/client';
import { principals } from '../../api/access';
import type { Principal } from '../../api/types';
import { ActionButton, ActionMenuItem } from '../../components/action-button';
import { ConfirmDialog, useDo } from '../../components/confirm-dialog';
import { Choice } from '../../components/choice';
import { DataTable, type Column } from '../../components/data-table';
import { When } from '../../components/figures';
import { DISABLED, HEALTHY, Mark } from '../../components/status-icons';
import { useMe } from '../../components/current-user';
import { Empty } from '../../components/notes';
import { paths } from '../../lib/paths';
import { firn } from '../../lib/terminal';
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
  principal: Principal;
}

const KINDS = [
  { value: 'users', label: 'People' },
  { value: 'services', label: 'Services' },
];

const ofKind = (row: Principal): Kind => (row.kind === 'person' ? 'users' : 'services');

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
            id={(row) => row.name}
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
    { key: 'name', title: 'Name', cell: (row) => <span className="mono">{row.name}</span> },
    { key: 'state', title: 'State', cell: (row) => <Mark look={row.disabled ? DISABLED : { ...HEALTHY, says: 'enabled' }} /> },
    { key: 'roles', title: 'Roles', cell: (row) => <RoleTags roles={row.roles} />, wide: true },
    { key: 'in', title: 'Authentication', cell: (row) => <span className="dim">{waysIn(row)}</span> },
    { key: 'subject', title: 'Subject', cell: (row) => <span className="mono dim">{row.subject ?? '–'}</span>, extra: true },
    { key: 'created', title: 'Created', cell: (row) => <When at={row.created_at} />, right: true },
    { key: 'act', title: '', cell: (row) => <Actions principal={row} ask={ask} />, right: true },
  ];
}

function waysIn(principal: Principal): string {
  if (principal.kind === 'service') return 'secret and tokens';
  return principal.issuer === null ? 'tokens' : new URL(principal.issuer).host;
}

function Actions({ principal, ask }: { principal: Principal; ask: (asked: Asked) => void }) {
  const me = useMe();
  const navigate = useNavigate();
  const enable = useDo(`cannot enable ${principal.name}`, () => answered(api.POST(`/${ofKind(principal)}/{name}/enable`, { params: { path: { name: principal.name } } })));
  const self = principal.name === me.name ? 'That is you.' : null;
  return (
    <span className="row" style={{ gap: 6, justifyContent: 'flex-end' }}>
      <ActionButton size="compact-xs" variant="default" aria-label={`Roles of ${principal.name}`} onClick={() => ask({ what: 'roles', principal })}>
        Roles…
      </ActionButton>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon size="sm" aria-label={`more about ${principal.name}`}>
            <IconDots size={15} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => void navigate(`${paths.tokens()}?owner=${encodeURIComponent(principal.name)}`)}>Tokens</Menu.Item>
          <Menu.Item onClick={() => void navigate(paths.audit({ who: principal.name }))}>Audit log</Menu.Item>
          {principal.kind === 'service' && <Menu.Item onClick={() => ask({ what: 'secret', principal })}>New client secret…</Menu.Item>}
          <Menu.Divider />
          {principal.disabled ? (
            <Menu.Item onClick={() => enable.mutate()}>Enable</Menu.Item>
          ) : (
            <ActionMenuItem disabledReason={self} onClick={() => ask({ what: 'disable', principal })}>
              Disable…
            </ActionMenuItem>
          )}
          <ActionMenuItem disabledReason={self} onClick={() => ask({ what: 'drop', principal })}>
            Drop…
          </ActionMenuItem>
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
  const { what, principal } = asked;
  const at = { params: { path: { name: principal.name } } };
  const isService = principal.kind === 'service';
  if (what === 'roles') return <RolesOf principal={principal} close={close} />;
  if (what === 'disable') {
    return (
      <ConfirmDialog title={`Disable ${principal.name}`} opened close={close} yes="Disable" danger command={isService ? firn('service disable', [principal.name]) : firn('user disable', [principal.name])} act={() => answered(api.POST(`/${ofKind(principal)}/{name}/disable`, at))}>
        None of the tokens of {principal.name} opens anything until they are enabled again. Roles stay.
      </ConfirmDialog>
    );
  }
  if (what === 'drop') {
    return (
      <ConfirmDialog title={`Drop ${principal.name}`} opened close={close} yes="Drop" danger command={isService ? firn('service drop', [principal.name]) : firn('user drop', [principal.name])} act={() => answered(api.DELETE(`/${ofKind(principal)}/{name}`, at))}>
        {principal.name} and all their tokens are gone. This cannot be undone.
        {principal.issuer !== null && ' A user who can still sign in at the issuer is created again: disable the user instead.'}
      </ConfirmDialog>
    );
  }
  const renew = async () => {
    const made = await answered(api.POST('/services/{name}/secret', at));
    show({ title: `The new secret of ${principal.name}`, secret: `${made.client_id}:${made.client_secret}`, says: 'Engines take it as their credential.' });
  };
  return (
    <ConfirmDialog title={`New client secret for ${principal.name}`} opened close={close} yes="Make a new secret" danger command={firn('service new-secret', [principal.name])} act={renew}>
      The old secret and every token of {principal.name} end at once: engines that use them are refused until they have the new one.
    </ConfirmDialog>
  );
}
