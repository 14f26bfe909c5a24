import { Button, PasswordInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState, type SyntheticEvent } from 'react';

import { answered, api, withToken } from '../api/client';
import { begin } from '../api/oidc';
import { Problem } from '../api/problem';
import { signIn } from '../api/session';
import type { Oidc } from '../api/types';
import { ActionButton } from '../components/action-button';
import { Logo } from '../components/logo';
import { Note, ProblemNote } from '../components/notes';
import styles from '../components/gate.module.css';

interface SignInProps {
  oidc: Oidc | null;
  /** Why one is here again. */
  reason: Problem | null;
}

/** Stands in place of every page until the server knows who is there. */
export function SignInPage({ oidc, reason }: SignInProps) {
  const queries = useQueryClient();
  // Nothing that was shown to somebody else stays behind.
  useEffect(() => queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'login' }), [queries]);
  return (
    <main className={styles.alone}>
      <div className={styles.card}>
        <h1 className={styles.title}>
          <Logo size={26} />
          Sign in to Firn
        </h1>
        {reason !== null && (
          <Note tone="warn" title="Sign in again">
            {reason.message.charAt(0).toUpperCase() + reason.message.slice(1)}. You come back to the page that you were on.
          </Note>
        )}
        {oidc !== null && (
          <>
            <AtIssuer oidc={oidc} />
            <div className={styles.or}>or</div>
          </>
        )}
        <WithToken focused={oidc === null} />
      </div>
    </main>
  );
}

function AtIssuer({ oidc }: { oidc: Oidc }) {
  const going = useMutation({ mutationFn: () => begin(oidc) });
  return (
    <>
      <Button size="sm" loading={going.isPending || going.isSuccess} onClick={() => going.mutate()}>
        Sign in with {new URL(oidc.issuer).host}
      </Button>
      {going.error && <ProblemNote error={going.error} />}
    </>
  );
}

function WithToken({ focused }: { focused: boolean }) {
  const [typed, setTyped] = useState('');
  const token = typed.trim();
  const entering = useMutation({
    mutationFn: async () => {
      // Anything else could not even be sent.
      if (!/^[\x21-\x7e]+$/.test(token)) throw new Problem('invalid', 'That is not a token.', 'A token begins with firn_.');
      await answered(api.GET('/me', { headers: withToken(token) }));
    },
    onSuccess: () => signIn({ token, renewal: null }),
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (token !== '') entering.mutate();
  };
  return (
    <form onSubmit={submit} className="stack">
      <PasswordInput
        size="sm"
        label="Token"
        description="An administrator gives you one: firn token create NAME --owner YOU. The browser keeps it until you close this tab."
        placeholder="firn_…"
        autoComplete="off"
        value={typed}
        onChange={(event) => setTyped(event.currentTarget.value)}
        autoFocus={focused}
        classNames={{ input: 'mono' }}
        visibilityToggleButtonProps={{ 'aria-label': 'show the token' }}
      />
      {entering.error && <ProblemNote error={entering.error} />}
      <ActionButton type="submit" size="sm" variant={focused ? 'filled' : 'default'} loading={entering.isPending} disabledReason={token === '' ? 'Paste a token first.' : null}>
        Sign in
      </ActionButton>
    </form>
  );
}
