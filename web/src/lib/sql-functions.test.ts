import { expect, it } from 'vitest';

import { FUNCTIONS } from './sql-functions';

const find = (engine: 'instant' | 'spark', name: string) => FUNCTIONS[engine].find((one) => one.name === name);

it('each engine completes its own functions, those with examples first', () => {
  expect(find('instant', 'date_trunc')).toEqual({ name: 'date_trunc', arguments: "('month', time)", common: true });
  expect(find('spark', 'date_trunc')).toEqual({ name: 'date_trunc', arguments: '(fmt, ts)', common: true });
  expect(find('spark', 'posexplode')?.common).toBe(false);
  expect(find('instant', 'posexplode')).toBeUndefined();
  expect(find('spark', 'list_transform')).toBeUndefined();
});

it('no engine offers what queries may not call, and no name twice', () => {
  for (const name of ['reflect', 'java_method', 'read_parquet', 'read_csv', 'getenv', 'input_file_name', 'current_setting']) {
    expect([find('instant', name), find('spark', name)]).toEqual([undefined, undefined]);
  }
  for (const functions of Object.values(FUNCTIONS)) expect(new Set(functions.map(({ name }) => name)).size).toBe(functions.length);
});
