/** Signing in at an OpenID Connect issuer: authorization code with PKCE, all of it in the browser. */
import type * as OAuth from 'oauth4webapi';

import { Problem } from './problem';
import type { Oidc } from './types';

const KEY = 'firn.oidc';

/** What has to be remembered while the browser is at the issuer. */
interface Begun {
  state: string;
  nonce: string;
  verifier: string;
  back: string;
}

export interface Held {
  token: string;
  /** With what it is renewed before it ends; null for a token that somebody pasted. */
  renewal: { refresh: string; until: number; oidc: Oidc } | null;
}

interface Known {
  oauth: typeof OAuth;
  server: OAuth.AuthorizationServer;
  client: OAuth.Client;
  options: OAuth.TokenEndpointRequestOptions;
}

/** Goes to the issuer; the browser comes back to `/` and from there to the page that it was on. */
export async function begin(oidc: Oidc): Promise<void> {
  const { oauth, server } = await known(oidc);
  if (server.authorization_endpoint === undefined) throw new Problem('unexpected', `${oidc.issuer} has no page to sign in at.`);
  const begun: Begun = {
    state: oauth.generateRandomState(),
    nonce: oauth.generateRandomNonce(),
    verifier: oauth.generateRandomCodeVerifier(),
    back: location.pathname + location.search,
  };
  sessionStorage.setItem(KEY, JSON.stringify(begun));
  const to = new URL(server.authorization_endpoint);
  const asked = {
    client_id: oidc.client_id,
    redirect_uri: redirectUri(),
    response_type: 'code',
    scope: oidc.scope,
    state: begun.state,
    nonce: begun.nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(begun.verifier),
    code_challenge_method: 'S256',
  };
  for (const [name, value] of Object.entries(asked)) to.searchParams.set(name, value);
  location.assign(to);
}

/** Whether the browser has just come back from the issuer. */
export function isBack(): boolean {
  const params = new URLSearchParams(location.search);
  return location.pathname === '/' && params.has('state') && (params.has('code') || params.has('error'));
}

/** What the issuer gave, and the page that one was on before. */
export async function finish(oidc: Oidc): Promise<{ held: Held; back: string }> {
  const kept = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  if (kept === null) throw new Problem('unexpected', 'This tab did not begin to sign in.', 'Sign in again.');
  const begun = JSON.parse(kept) as Begun;
  const { oauth, server, client, options } = await known(oidc);
  try {
    const params = oauth.validateAuthResponse(server, client, new URL(location.href), begun.state);
    const answer = await oauth.authorizationCodeGrantRequest(
      server,
      client,
      oauth.None(),
      params,
      redirectUri(),
      begun.verifier,
      options,
    );
    const isOpenId = oidc.scope.split(' ').includes('openid');
    const given = await oauth.processAuthorizationCodeResponse(server, client, answer, isOpenId ? { expectedNonce: begun.nonce } : {});
    return { held: heldOf(given, oidc, null), back: begun.back };
  } catch (error) {
    throw refusal(oauth, error);
  }
}

/** The next token, for one that is about to end. */
export async function renewed(oidc: Oidc, refresh: string): Promise<Held> {
  const { oauth, server, client, options } = await known(oidc);
  const answer = await oauth.refreshTokenGrantRequest(server, client, oauth.None(), refresh, options);
  return heldOf(await oauth.processRefreshTokenResponse(server, client, answer), oidc, refresh);
}

function heldOf(given: OAuth.TokenEndpointResponse, oidc: Oidc, before: string | null): Held {
  const refresh = given.refresh_token ?? before;
  // Firn checks signed tokens; an issuer with opaque access tokens signs the one that says who it is.
  const isSigned = given.access_token.split('.').length === 3;
  const token = isSigned ? given.access_token : (given.id_token ?? given.access_token);
  if (refresh === null || given.expires_in === undefined) return { token, renewal: null };
  return { token, renewal: { refresh, until: Date.now() + given.expires_in * 1000, oidc } };
}

async function known(oidc: Oidc): Promise<Known> {
  const oauth = await import('oauth4webapi');
  const issuer = new URL(oidc.issuer);
  // The server takes http:// for an issuer on its own machine only.
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  const options = { [oauth.allowInsecureRequests]: issuer.protocol === 'http:' };
  try {
    const answer = await oauth.discoveryRequest(issuer, options);
    const server = await oauth.processDiscoveryResponse(issuer, answer);
    return { oauth, server, client: { client_id: oidc.client_id }, options };
  } catch (error) {
    throw new Problem(
      'unexpected',
      `${oidc.issuer} cannot be asked how to sign in: ${error instanceof Error ? error.message : String(error)}`,
      'It must allow this console’s address as an origin.',
    );
  }
}

function refusal(oauth: typeof OAuth, error: unknown): Problem {
  if (error instanceof oauth.AuthorizationResponseError || error instanceof oauth.ResponseBodyError) {
    return new Problem('unauthenticated', `The issuer refused: ${error.error_description ?? error.error}`, 'Sign in again.');
  }
  return new Problem('unexpected', `Signing in failed: ${error instanceof Error ? error.message : String(error)}`, 'Sign in again.');
}

function redirectUri(): string {
  return `${location.origin}/`;
}
