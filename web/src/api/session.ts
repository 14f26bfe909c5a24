/** Whose token this tab sends. It is kept for the tab alone and is forgotten with it. */
import { useSyncExternalStore } from 'react';

import { renewed, type Held } from './oidc';
import type { Problem } from './problem';

const KEY = 'firn.session';
/** A token is renewed so long before it ends. */
const AHEAD_MS = 30_000;

interface Session {
  held: Held | null;
  /** Why one has to sign in again. */
  reason: Problem | null;
}

let session: Session = { held: stored(), reason: null };
let renewing: Promise<string> | undefined;
const listeners = new Set<() => void>();

function stored(): Held | null {
  const text = sessionStorage.getItem(KEY);
  return text === null ? null : (JSON.parse(text) as Held);
}

function put(next: Session): void {
  session = next;
  if (next.held === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, JSON.stringify(next.held));
  listeners.forEach((tell) => tell());
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useSession(): Session {
  return useSyncExternalStore(subscribe, () => session);
}

export const signIn = (held: Held): void => put({ held, reason: null });
export const signOut = (): void => put({ held: null, reason: null });

/** The server no longer takes what was sent. An answer to an older token says nothing about the one held now. */
export function refused(sent: string | null, reason: Problem): void {
  if (sent === (session.held?.token ?? null)) put({ held: null, reason: sent === null ? null : reason });
}

/** The token to send, renewed when its end is near; null when nobody has signed in. */
export async function bearer(): Promise<string | null> {
  const { held } = session;
  if (held === null) return null;
  if (held.renewal === null || Date.now() < held.renewal.until - AHEAD_MS) return held.token;
  renewing ??= renew(held, held.renewal).finally(() => (renewing = undefined));
  return renewing;
}

async function renew(held: Held, renewal: NonNullable<Held['renewal']>): Promise<string> {
  try {
    const next = await renewed(renewal.oidc, renewal.refresh);
    if (session.held === held) signIn(next);
    return next.token;
  } catch {
    // The issuer says no or nothing: the server's answer to the old token decides.
    if (session.held === held) signIn({ ...held, renewal: null });
    return held.token;
  }
}
