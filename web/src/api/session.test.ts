import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Held } from './oidc';
import { Problem } from './problem';

const HOUR_MS = 3_600_000;
const ENDED = new Problem('unauthenticated', 'the token has expired');

/** What the tab keeps; a reload of the page is a fresh import over the same store. */
let kept: Map<string, string>;
let issuer: Server;
let url: string;
/** What the issuer was sent, and what it answers. */
let asked: URLSearchParams[];
let answer: { status: number; body: object };

async function fresh() {
  vi.resetModules();
  return import('./session');
}

function held(endsInMs: number): Held {
  const oidc = { issuer: url, client_id: 'firn-console', scope: 'openid' };
  return { token: 'old', renewal: { refresh: 'first', until: Date.now() + endsInMs, oidc } };
}

beforeEach(async () => {
  kept = new Map();
  asked = [];
  answer = { status: 200, body: { access_token: 'new', token_type: 'Bearer', expires_in: 600, refresh_token: 'second' } };
  vi.stubGlobal('sessionStorage', {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, text: string) => kept.set(key, text),
    removeItem: (key: string) => kept.delete(key),
  });
  issuer = createServer((request, response) => {
    let body = '';
    request.on('data', (part: Buffer) => (body += part.toString()));
    request.on('end', () => {
      const isToken = request.url === '/token';
      if (isToken) asked.push(new URLSearchParams(body));
      response.writeHead(isToken ? answer.status : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(isToken ? answer.body : { issuer: url, token_endpoint: `${url}/token` }));
    });
  });
  await new Promise<void>((listening) => issuer.listen(0, '127.0.0.1', listening));
  url = `http://127.0.0.1:${(issuer.address() as AddressInfo).port}`;
});

afterEach(async () => {
  vi.unstubAllGlobals();
  await new Promise((closed) => issuer.close(closed));
});

describe('the token that is sent', () => {
  it('is nothing before somebody has signed in', async () => {
    expect(await (await fresh()).bearer()).toBeNull();
  });

  it('stays as it is while its end is far', async () => {
    const session = await fresh();
    session.signIn(held(HOUR_MS));
    expect(await session.bearer()).toBe('old');
    expect(asked).toEqual([]);
  });

  it('is renewed once before its end, whoever asks at that moment', async () => {
    const session = await fresh();
    session.signIn(held(20_000));
    expect(await Promise.all([session.bearer(), session.bearer(), session.bearer()])).toEqual(['new', 'new', 'new']);
    expect(asked.map((form) => Object.fromEntries(form))).toEqual([
      { grant_type: 'refresh_token', refresh_token: 'first', client_id: 'firn-console' },
    ]);
    expect(await session.bearer()).toBe('new');
    expect(asked).toHaveLength(1);
  });

  it('is the renewed one after a reload of the page, and so is what renews it next', async () => {
    const before = await fresh();
    before.signIn(held(20_000));
    await before.bearer();
    const after = await fresh();
    expect(await after.bearer()).toBe('new');
    expect(JSON.parse(kept.get('firn.session') ?? '')).toMatchObject({ token: 'new', renewal: { refresh: 'second' } });
  });

  it('is renewed with the same again where the issuer gives no other', async () => {
    answer.body = { access_token: 'new', token_type: 'Bearer', expires_in: 10 };
    const session = await fresh();
    session.signIn(held(20_000));
    await session.bearer();
    await session.bearer();
    expect(asked.map((form) => form.get('refresh_token'))).toEqual(['first', 'first']);
  });

  it('is the old one where the issuer refuses, which is asked once; the server decides then', async () => {
    answer = { status: 400, body: { error: 'invalid_grant' } };
    const session = await fresh();
    session.signIn(held(20_000));
    expect(await session.bearer()).toBe('old');
    expect(await session.bearer()).toBe('old');
    expect(asked).toHaveLength(1);
    session.refused('old', ENDED);
    expect(await session.bearer()).toBeNull();
  });

  it('stays when an answer to the one before it comes late', async () => {
    const session = await fresh();
    session.signIn(held(20_000));
    await session.bearer();
    session.refused('old', ENDED);
    expect(await session.bearer()).toBe('new');
  });

  it('is not brought back by a renewal that ends after signing out', async () => {
    const session = await fresh();
    session.signIn(held(20_000));
    const renewing = session.bearer();
    session.signOut();
    await renewing;
    expect(await session.bearer()).toBeNull();
    expect(kept.size).toBe(0);
  });
});
