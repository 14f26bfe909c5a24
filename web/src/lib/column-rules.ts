type Properties = Readonly<Record<string, string>>;

const SHOWN: Readonly<Record<string, string>> = {
  sum: 'sum',
  max: 'largest value',
  min: 'smallest value',
  first: 'first value',
  'last-not-null': 'last value that is not null',
};

/** Whether changes of the table may set some of its columns only. */
export const isPartial = (properties: Properties) => properties['firn.partial'] === 'true';

/** How the values of a row's changes become one, in words, by column, for those with a rule or a sequence group. */
export function readColumnRules(properties: Properties): ReadonlyMap<string, string> {
  const rules = new Map<string, string>();
  for (const [key, value] of Object.entries(properties)) {
    const column = /^firn\.column\.(.+)\.rule$/.exec(key)?.[1];
    if (column !== undefined) rules.set(column, SHOWN[value] ?? value);
    const group = /^firn\.group\.(.+)\.columns$/.exec(key)?.[1];
    const sequence = properties[`firn.group.${group ?? ''}.sequence-field`];
    if (group === undefined || sequence === undefined) continue;
    for (const name of value.split(',').map((part) => part.trim())) rules.set(name, `newest by ${sequence} (group ${group})`);
    rules.set(sequence, `orders group ${group}`);
  }
  return rules;
}
