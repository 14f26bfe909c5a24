/**
 * openapi-fetch's methods, with options that the compiler checks exactly.
 *
 * openapi-fetch infers its options and allows any other key beside them: a body field that the API has no longer
 * compiled, and the server ignored or refused it. Here a body, query or path field that the API document does not name
 * is an error, however deep it is nested, and wherever the object was made.
 */
import type { Client, ClientPathsWithMethod, FetchOptions, FetchResponse } from 'openapi-fetch';

type Primitive = string | number | boolean | bigint | symbol | null | undefined;

/** The members of the union `Wanted` that `Given` is one of. */
type Matching<Wanted, Given> = Wanted extends unknown ? (Given extends Wanted ? Wanted : never) : never;

type KeyOf<T> = T extends unknown ? keyof T : never;
type ValueAt<T, Key extends PropertyKey> = T extends unknown ? (Key extends keyof T ? T[Key] : never) : never;

/** `Given`, in which every key that `Wanted` has not is `never`. */
export type Exact<Wanted, Given> = Given extends Primitive
  ? Given
  : Given extends readonly (infer GivenItem)[]
    ? Wanted extends readonly (infer WantedItem)[]
      ? readonly Exact<WantedItem, GivenItem>[]
      : Given
    : ExactObject<Matching<Wanted, Given>, Given>;

type ExactObject<Wanted, Given> = {
  [Key in keyof Given]: Key extends KeyOf<Wanted> ? Exact<ValueAt<Wanted, Key>, Given[Key]> : never;
};

/** What a request carries, of all that openapi-fetch takes. */
type Sent<Operation> = Pick<FetchOptions<Operation>, Extract<keyof FetchOptions<Operation>, 'params' | 'body' | 'headers'>>;

type ExactRequest<Operation, Given> = {
  [Key in keyof Given]: Key extends 'headers'
    ? Given[Key]
    : Key extends keyof Sent<Operation>
      ? Exact<Sent<Operation>[Key], Given[Key]>
      : never;
};

type Options<Operation, Given> = Partial<Sent<Operation>> extends Sent<Operation>
  ? [(Given & ExactRequest<Operation, Given>)?]
  : [Given & ExactRequest<Operation, Given>];

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type MediaType = `${string}/${string}`;

type StrictMethod<Paths extends object, Name extends Method> = <
  Path extends ClientPathsWithMethod<Client<Paths>, Name> & keyof Paths,
  Operation extends Paths[Path][Name & keyof Paths[Path]],
  Given extends Sent<Operation>,
>(
  path: Path,
  ...options: Options<Operation, Given>
) => Promise<FetchResponse<Operation & Record<string, unknown>, object, MediaType>>;

export type StrictClient<Paths extends object> = { [Name in Method as Uppercase<Name>]: StrictMethod<Paths, Name> };
