import createClient from 'openapi-fetch';

import type { paths } from './generated';
import { problemOf, UNREACHABLE } from './problem';
import { bearer, refused } from './session';
import type { StrictClient } from './strict-client';

const client = createClient<paths>({
  baseUrl: '/api/v1',
  // What histories name as the engine of what is done here.
  headers: { 'X-Client-Version': 'Firn console' },
  // ?status=failed&status=unknown: the way FastAPI reads lists.
  querySerializer: { array: { style: 'form', explode: true } },
});

/** The API; the compiler refuses fields that its document does not name. */
export const api: StrictClient<paths> = client as unknown as StrictClient<paths>;

const SCHEME = 'Bearer ';

client.use({
  async onRequest({ request }) {
    if (request.headers.has('Authorization')) return;
    const token = await bearer();
    if (token !== null) request.headers.set('Authorization', SCHEME + token);
  },
  async onResponse({ request, response }) {
    if (response.status !== 401) return;
    const sent = request.headers.get('Authorization')?.slice(SCHEME.length) ?? null;
    const body: unknown = await response.clone().json().catch(() => null);
    refused(sent, problemOf(body, response.status));
  },
});

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Headers for a request with another token than the one of this tab. */
export const withToken = (token: string) => ({ Authorization: SCHEME + token });

/** The answer's body; a Problem is thrown for a refusal and for no answer. */
export async function answered<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await call;
  } catch {
    throw UNREACHABLE;
  }
  // An empty 204 has neither; for those T is undefined.
  if (answer.error === undefined && answer.response.ok) return answer.data as T;
  throw problemOf(answer.error, answer.response.status);
}

/** A text, such as CSV, of the API below /api/v1; a Problem is thrown as by `answered`. */
export async function exported(path: string, query: Record<string, string | number | boolean> = {}): Promise<string> {
  const params = new URLSearchParams(Object.entries(query).map(([key, value]) => [key, String(value)]));
  const token = await bearer();
  let answer: Response;
  try {
    answer = await fetch(`/api/v1${path}?${params.toString()}`, token === null ? {} : { headers: withToken(token) });
  } catch {
    throw UNREACHABLE;
  }
  if (!answer.ok) throw problemOf(await answer.json().catch(() => null), answer.status);
  return answer.text();
}
