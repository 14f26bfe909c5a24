/** What the server says when it refuses, or that it does not answer at all. */
export class Problem extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly hint: string | null = null,
    readonly requestId: string | null = null,
  ) {
    super(message);
    this.name = 'Problem';
  }

  /** Whether trying again later may help without anybody changing anything. */
  get passes(): boolean {
    return this.code === 'unreachable' || this.code === 'unavailable';
  }
}

export const UNREACHABLE = new Problem(
  'unreachable',
  'The server does not answer.',
  'Look whether it runs; this page tries again by itself.',
);

interface Body {
  error?: { code?: string; message?: string; hint?: string | null; request_id?: string | null };
}

/** The problem in an answer's body; every refusal of the API has the one shape. */
export function problemOf(body: unknown, status: number): Problem {
  const error = typeof body === 'object' && body !== null ? (body as Body).error : undefined;
  if (error?.message === undefined) return new Problem('unexpected', `The server answered ${status} without saying why.`);
  return new Problem(error.code ?? 'unexpected', error.message, error.hint ?? null, error.request_id ?? null);
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem('unexpected', error instanceof Error ? error.message : String(error));
}
