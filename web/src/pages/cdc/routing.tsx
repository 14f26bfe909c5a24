import { ActionIcon, Button, Checkbox, Select, TextInput } from '@mantine/core';
import { IconPlus, IconTrash } from '@tabler/icons-react';

import { missingIn, newRule, type Draft, type RuleDraft } from '../../lib/cdc';
import { Footer } from './footer';
import type { StepProps } from './page';

/** Which tables of the source go to which table of the lake; the first rule that matches takes a table. */
export function RoutingStep({ draft, change, go }: StepProps) {
  const set = (id: number, changes: Partial<RuleDraft>) => change({ rules: draft.rules.map((rule) => (rule.id === id ? { ...rule, ...changes } : rule)) });
  const add = () => change({ rules: [...draft.rules, newRule(Math.max(-1, ...draft.rules.map(({ id }) => id)) + 1)] });
  return (
    <div className="stack">
      <div className="dim">
        An asterisk stands for any text; <code className="mono">\1</code> is the text of the first one. The first rule that matches a table of the source takes it. Tables that no rule matches are left out.
      </div>
      {draft.rules.map((rule, number) => (
        <Rule key={rule.id} title={`rule ${number + 1}`} rule={rule} set={(changes) => set(rule.id, changes)} remove={() => change({ rules: draft.rules.filter(({ id }) => id !== rule.id) })} />
      ))}
      <Button variant="default" leftSection={<IconPlus size={14} />} onClick={add} style={{ alignSelf: 'flex-start' }}>
        Add a rule
      </Button>
      <Options draft={draft} change={change} />
      <Footer back={() => go(1)} next={() => go(3)} missing={missingIn(draft)} />
    </div>
  );
}

interface RuleProps {
  title: string;
  rule: RuleDraft;
  set: (changes: Partial<RuleDraft>) => void;
  remove: () => void;
}

function Rule({ title, rule, set, remove }: RuleProps) {
  const text = (name: 'include' | 'exclude' | 'table' | 'key' | 'source', label: string, placeholder: string, width = 200) => (
    <TextInput
      label={label}
      aria-label={`${label} of ${title}`}
      placeholder={placeholder}
      w={width}
      value={rule[name]}
      onChange={(event) => set({ [name]: event.currentTarget.value })}
      classNames={{ input: 'mono' }}
    />
  );
  return (
    <fieldset className="row row-wrap" aria-label={title} style={{ border: '1px solid var(--firn-line)', borderRadius: 5, padding: 12, margin: 0, alignItems: 'flex-end' }}>
      {text('include', 'Tables of the source', 'shop.*', 230)}
      {text('table', 'Table of the lake', 'shop.\\1', 230)}
      {text('exclude', 'But not', 'shop.*_old')}
      {text('key', 'Key', 'that of the records')}
      {text('source', 'Source column', 'none')}
      <Checkbox
        size="xs"
        checked={rule.partial}
        onChange={(event) => set({ partial: event.currentTarget.checked })}
        label="Partial"
        title="for sources that leave out values which an update does not change"
        mb={8}
      />
      <ActionIcon variant="subtle" color="gray" onClick={remove} aria-label={`remove ${title}`} mb={6}>
        <IconTrash size={15} />
      </ActionIcon>
    </fieldset>
  );
}

const STARTS = [
  { value: 'earliest', label: 'oldest record' },
  { value: 'latest', label: 'newest record' },
];
const DELETES = [
  { value: 'apply', label: 'deletes the row' },
  { value: 'ignore', label: 'is left out' },
  { value: 'stop', label: 'is a bad record' },
];
const TRUNCATES = [
  { value: 'stop', label: 'is a bad record' },
  { value: 'ignore', label: 'is left out' },
  { value: 'empty', label: 'empties the table' },
];
const SCHEMA = [
  { value: 'add', label: 'is added' },
  { value: 'ignore', label: 'is left out' },
];

function Options({ draft, change }: Pick<StepProps, 'draft' | 'change'>) {
  const choice = (label: string, value: string, data: { value: string; label: string }[], set: (value: string) => void) => (
    <Select label={label} w={200} value={value} data={data} allowDeselect={false} onChange={(chosen) => chosen !== null && set(chosen)} />
  );
  return (
    <div className="row row-wrap">
      {choice('A new table begins at the', draft.start, STARTS, (start) => change({ start: start as Draft['start'] }))}
      {choice('A delete', draft.deletes, DELETES, (deletes) => change({ deletes: deletes as Draft['deletes'] }))}
      {choice('A truncate', draft.truncates, TRUNCATES, (truncates) => change({ truncates: truncates as Draft['truncates'] }))}
      {choice('A new column', draft.schema, SCHEMA, (schema) => change({ schema: schema as Draft['schema'] }))}
    </div>
  );
}
