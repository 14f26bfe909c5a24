import createClient from 'openapi-fetch';

import type { paths } from './generated';
import { problemOf, UNREACHABLE } from './problem';

export const api = createClient<paths>({
  baseUrl: '/api/v1',
  // What histories name as the engine of what is done here.
  headers: { 'X-Client-Version': 'Firn console' },
  // ?status=failed&status=unknown: the way FastAPI reads lists.
  querySerializer: { array: { style: 'form', explode: true } },
});

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

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
