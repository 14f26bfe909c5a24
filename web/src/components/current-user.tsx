/** Who is signed in, and what they may do. */
import { useQuery } from '@tanstack/react-query';
import { createContext, useContext } from 'react';

import { optimizers, pulse } from '../api/queries';
import type { Me } from '../api/types';
import { has, scopeText, SERVER, type Need } from '../lib/access';

/** A server that lets everybody do everything. */
export const OPEN: Me = {
  access: false,
  name: null,
  kind: null,
  roles: [],
  grants: [],
  catalogs: null,
  token_id: null,
  expires_at: null,
  admin: true,
};

export const MeContext = createContext<Me>(OPEN);

export const useMe = (): Me => useContext(MeContext);

/** Says why something may not be done; null when it may. */
export function useWhyNot(): (...needs: Need[]) => string | null {
  const me = useMe();
  return (...needs) => {
    const missing = me.access ? needs.find((need) => !has(me.grants, need)) : undefined;
    if (missing === undefined) return null;
    const where = missing.on.catalog === null ? 'the server' : scopeText(missing.on);
    return `You lack the privilege “${missing.privilege}” on ${where}.`;
  };
}

const SEES_SERVER: Need = { privilege: 'list', on: SERVER };

export function useSeesServer(): boolean {
  return useWhyNot()(SEES_SERVER) === null;
}

export function usePulse() {
  return useQuery(pulse(useSeesServer()));
}

export function useOptimizers() {
  return useQuery(optimizers(useSeesServer()));
}
