import { ActionIcon, Badge, Button, TagsInput, Textarea, TextInput, Tooltip } from '@mantine/core';
import { IconPencil, IconUser } from '@tabler/icons-react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent, type KeyboardEvent } from 'react';

import type { Description as Written } from '../api/types';
import type { Need } from '../lib/access';
import { changeOf, draftOf, isEmpty, type DescriptionChange, type Draft } from '../lib/description';
import { ActionButton } from './action-button';
import { useWhyNot } from './current-user';
import { InTerminal } from './in-terminal';
import { ProblemNote } from './notes';
import { searchFor } from './search';
import styles from './description.module.css';

interface DescriptionProps {
  /** What it is about, for people who hear it: `table shop.orders`. */
  of: string;
  description: Written;
  needs: readonly Need[];
  save: (change: DescriptionChange) => Promise<unknown>;
  /** What does the same in a terminal, if one command does. */
  command: (change: DescriptionChange) => string | null;
}

/** The comment, the owner and the labels of something; a form in the same place changes them. */
export function Description(props: DescriptionProps) {
  const [editing, setEditing] = useState(false);
  if (editing) return <Form {...props} close={() => setEditing(false)} />;
  const { comment, owner, labels } = props.description;
  return (
    <div className={styles.shown}>
      {comment === null ? <span className="dim">No description of {props.of} yet</span> : <span className={styles.comment}>{comment}</span>}
      {owner !== null && (
        <span className={styles.owner} title="owner">
          <IconUser size={13} aria-hidden />
          <span className="hidden">owner</span>
          {owner}
        </span>
      )}
      <Labels labels={labels} />
      <EditButton what={`description of ${props.of}`} needs={props.needs} edit={() => setEditing(true)} />
    </div>
  );
}

/** Labels; each finds everything that has it, too. */
export function Labels({ labels }: { labels: readonly string[] }) {
  return labels.map((label) => (
    <Badge key={label} component="button" type="button" variant="default" size="sm" radius="sm" className={styles.label ?? ''} title={`find everything labelled ${label}`} onClick={() => searchFor(`label:${label}`)}>
      {label}
    </Badge>
  ));
}

export function EditButton({ what, needs, edit }: { what: string; needs: readonly Need[]; edit: () => void }) {
  const why = useWhyNot()(...needs);
  return (
    <Tooltip label={why ?? `Edit the ${what}`} events={{ hover: true, focus: true, touch: true }}>
      <ActionIcon size="sm" variant="subtle" color="gray" aria-label={`edit the ${what}`} aria-disabled={why !== null} data-disabled={why !== null || undefined} onClick={() => why === null && edit()}>
        <IconPencil size={14} />
      </ActionIcon>
    </Tooltip>
  );
}

function Form({ of, description, needs, save, command, close }: DescriptionProps & { close: () => void }) {
  const form = useDescriptionForm(description, save, close);
  const { draft, set, change } = form;
  const shown = isEmpty(change) ? null : command(change);
  return (
    <form className={styles.form} aria-label={`description of ${of}`} onSubmit={form.submit} onKeyDown={form.leaveOnEscape}>
      <Textarea label={`Description of ${of}`} autosize minRows={2} maxRows={8} maxLength={4000} value={draft.comment} onChange={(event) => set({ comment: event.currentTarget.value })} data-autofocus autoFocus />
      <div className={styles.pair}>
        <TextInput label="Owner" description="A team or a person" maxLength={255} value={draft.owner} onChange={(event) => set({ owner: event.currentTarget.value })} />
        <LabelsInput value={draft.labels} set={(labels) => set({ labels })} label="Labels" />
      </div>
      {shown !== null && <InTerminal command={shown} />}
      {form.error !== null && <ProblemNote error={form.error} />}
      <Buttons needs={needs} form={form} close={close} />
    </form>
  );
}

/** The same for a column, which has no owner, in its row. */
export function ColumnForm({ column, description, needs, save, close }: { column: string; description: Written; needs: readonly Need[]; save: DescriptionProps['save']; close: () => void }) {
  const form = useDescriptionForm(description, save, close);
  return (
    <form className={styles.form} aria-label={`comment of column ${column}`} onSubmit={form.submit} onKeyDown={form.leaveOnEscape}>
      <div className={styles.pair}>
        <TextInput label="Comment" maxLength={4000} value={form.draft.comment} onChange={(event) => form.set({ comment: event.currentTarget.value })} data-autofocus autoFocus />
        <LabelsInput value={form.draft.labels} set={(labels) => form.set({ labels })} label="Labels" />
      </div>
      {form.error !== null && <ProblemNote error={form.error} />}
      <Buttons needs={needs} form={form} close={close} />
    </form>
  );
}

function useDescriptionForm(description: Written, save: DescriptionProps['save'], close: () => void) {
  const queries = useQueryClient();
  // What others write meanwhile does not change the form, nor what it compares with.
  const [before] = useState(description);
  const [draft, setDraft] = useState<Draft>(() => draftOf(description));
  const change = changeOf(before, draft);
  const saving = useMutation({ mutationFn: () => save(change), onSuccess: () => queries.invalidateQueries() });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (isEmpty(change)) close();
    else saving.mutate(undefined, { onSuccess: close });
  };
  const leaveOnEscape = (event: KeyboardEvent) => {
    if (event.key !== 'Escape' || event.nativeEvent.isComposing) return;
    event.stopPropagation();
    close();
  };
  return { draft, change, submit, leaveOnEscape, isSaving: saving.isPending, error: saving.error, set: (part: Partial<Draft>) => setDraft((now) => ({ ...now, ...part })) };
}

function LabelsInput({ label, value, set }: { label: string; value: string[]; set: (labels: string[]) => void }) {
  return <TagsInput label={label} description="Words such as pii; Enter adds one" value={value} onChange={set} acceptValueOnBlur splitChars={[',', ' ']} clearable={false} maxTags={50} />;
}

function Buttons({ needs, form, close }: { needs: readonly Need[]; form: ReturnType<typeof useDescriptionForm>; close: () => void }) {
  return (
    <div className="row" style={{ justifyContent: 'flex-end' }}>
      <Button variant="default" size="compact-sm" onClick={close}>
        Cancel
      </Button>
      <ActionButton type="submit" size="compact-sm" needs={needs} loading={form.isSaving}>
        Save
      </ActionButton>
    </div>
  );
}
