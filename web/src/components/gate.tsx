import { Loader } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { useNavigate } from 'react-router';

import { finish, isBack } from '../api/oidc';
import { asProblem, type Problem } from '../api/problem';
import { login, me } from '../api/queries';
import { signIn, useSession } from '../api/session';
import type { Oidc } from '../api/types';
import { SignInPage } from '../pages/sign-in';
import { MeContext, OPEN } from './current-user';
import { ProblemNote } from './notes';
import styles from './gate.module.css';

/** Lets nobody see a page before the server knows who they are. The address stays, so that one is back where one was. */
export function Gate({ children }: { children: ReactNode }) {
  const { held, reason } = useSession();
  const { data, error } = useQuery(login());
  if (data === undefined) return <Waiting error={error} />;
  if (held === null && (data.access || reason !== null)) {
    return data.oidc !== null && isBack() ? <Return oidc={data.oidc} /> : <SignInPage oidc={data.oidc} reason={reason} />;
  }
  return data.access ? <Known>{children}</Known> : <MeContext value={OPEN}>{children}</MeContext>;
}

function Known({ children }: { children: ReactNode }) {
  const { data, error } = useQuery(me());
  if (data === undefined) return <Waiting error={error} />;
  return <MeContext value={data}>{children}</MeContext>;
}

function Waiting({ error }: { error: unknown }) {
  return (
    <main className={styles.alone}>
      {error === null ? <Loader size="sm" aria-label="one moment" /> : <ProblemNote error={error} />}
    </main>
  );
}

/** The browser comes back from the issuer with a code, which is good for one token. */
function Return({ oidc }: { oidc: Oidc }) {
  const navigate = useNavigate();
  const [problem, setProblem] = useState<Problem | null>(null);
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current) return;
    begun.current = true;
    finish(oidc).then(
      async ({ held, back }) => {
        await navigate(back, { replace: true });
        signIn(held);
      },
      (error: unknown) => setProblem(asProblem(error)),
    );
  }, [navigate, oidc]);
  return problem === null ? <Waiting error={null} /> : <SignInPage oidc={oidc} reason={problem} />;
}
