import { Select } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { answered, api } from '../../api/client';
import { tokens } from '../../api/access';
import type { Token, TokenKind } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { ConfirmDialog } from '../../components/confirm-dialog';
import { Choice } from '../../components/choice';
import { DataTable, type Column } from '../../components/data-table';
import { useNow, When } from '../../components/figures';
import { TokenMark, tokenState } from '../../components/status-icons';
import { useMe } from '../../components/current-user';
import { Empty } from '../../components/notes';
import { firn } from '../../lib/terminal';
import { useUrlState } from '../../lib/url-state';
import { AccessFrame } from './frame';
import { CreateToken } from './create-token';
import { ShowOnce, type Shown } from './secret';
import { Tags } from './tags';

const KINDS: { value: '' | TokenKind; label: string }[] = [
  { value: '', label: 'Every kind' },
  { value: 'bearer', label: 'made by people' },
  { value: 'access', label: 'given to engines' },
];

/** One's own tokens; an administrator sees everybody's. */
export function TokensPage() {
  const { admin } = useMe();
  const [get, set] = useUrlState();
  const [creating, { open, close }] = useDisclosure(false);
  const [shown, show] = useState<Shown | undefined>();
  const [revoking, revoke] = useState<Token | undefined>();
  const owner = get('owner');
  const kind = get('kind') as TokenKind | undefined;
  const found = useInfiniteQuery(tokens(owner, kind));
  return (
    <AccessFrame
      actions={
        <ActionButton leftSection={<IconPlus size={14} />} onClick={open}>
          Create token
        </ActionButton>
      }
    >
      <div className="row row-wrap">
        {admin && (
          <Choice
            label="whose tokens"
            value={owner === undefined ? 'own' : 'all'}
            set={(value) => set({ owner: value === 'all' ? '*' : undefined })}
            options={[
              { value: 'own', label: 'Yours' },
              { value: 'all', label: owner === undefined || owner === '*' ? 'All users' : `${owner}’s` },
            ]}
          />
        )}
        <Select aria-label="kind of token" w={150} value={kind ?? ''} onChange={(value) => set({ kind: value ?? undefined })} data={KINDS} />
      </div>
      <DataTable
        name="tokens"
        columns={columns(owner !== undefined, revoke)}
        rows={found.data?.pages.flatMap((page) => page.items)}
        error={found.error}
        id={(row) => row.id}
        more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
        empty={<Empty title="No matching tokens">Jobs, notebooks and the command line sign in with a token.</Empty>}
      />
      {creating && <CreateToken close={close} made={show} />}
      <ShowOnce shown={shown} close={() => show(undefined)} />
      <ConfirmDialog
        title={`Revoke ${revoking?.name ?? ''}`}
        opened={revoking !== undefined}
        close={() => revoke(undefined)}
        yes="Revoke it"
        danger
        command={firn('token revoke', [revoking?.id ?? ''])}
        act={() => answered(api.DELETE('/tokens/{token_id}', { params: { path: { token_id: revoking?.id ?? '' } } }))}
      >
        Firn refuses the token <span className="mono">{revoking?.id}</span> from now on, on other servers within seconds, and with it
        every token that it was exchanged for. This cannot be undone.
      </ConfirmDialog>
    </AccessFrame>
  );
}

function columns(withOwner: boolean, revoke: (token: Token) => void): Column<Token>[] {
  const owner: Column<Token> = { key: 'owner', title: 'Of', cell: (row) => <span className="mono">{row.owner}</span> };
  return [
    { key: 'name', title: 'Token', cell: (row) => <div className="wrap-anywhere" style={{ minWidth: 120 }}>{row.name}</div>, wide: true },
    { key: 'state', title: 'State', cell: (row) => <State token={row} /> },
    ...(withOwner ? [owner] : []),
    { key: 'roles', title: 'Roles', cell: (row) => <Limits names={row.roles} all="all of the owner" />, help: 'what it is limited to' },
    { key: 'catalogs', title: 'Catalogs', cell: (row) => <Limits names={row.catalogs} all="all" />, help: 'what it is limited to' },
    { key: 'used', title: 'Last used', cell: (row) => (row.last_used_at === null ? <span className="dim">never</span> : <When at={row.last_used_at} />), right: true },
    { key: 'ends', title: 'Expires', cell: (row) => (row.expires_at === null ? <span className="dim">never</span> : <When at={row.expires_at} />), right: true },
    { key: 'created', title: 'Created', cell: (row) => <When at={row.created_at} />, right: true, extra: true },
    { key: 'id', title: 'Id', cell: (row) => <span className="mono dim">{row.id}</span>, extra: true },
    { key: 'act', title: '', cell: (row) => <Revoke token={row} revoke={revoke} />, right: true },
  ];
}

function State({ token }: { token: Token }) {
  return <TokenMark token={token} now={useNow()} />;
}

function Limits({ names, all }: { names: string[] | null; all: string }) {
  return names === null ? <span className="dim">{all}</span> : <Tags names={names} />;
}

function Revoke({ token, revoke }: { token: Token; revoke: (token: Token) => void }) {
  const { token_id } = useMe();
  const state = tokenState(token, useNow());
  const over = state === 'revoked' ? 'It was revoked.' : state === 'expired' ? 'It has expired.' : null;
  const own = token.id === token_id ? 'You are signed in with this token: sign in with another one to revoke it.' : null;
  return (
    <ActionButton size="compact-xs" variant="default" aria-label={`Revoke ${token.name}`} disabledReason={over ?? own} onClick={() => revoke(token)}>
      Revoke
    </ActionButton>
  );
}
