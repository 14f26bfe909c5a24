import { Checkbox, Modal, Select, Switch, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { answered, api } from '../../api/client';
import { catalogs } from '../../api/queries';
import type { Channel, CreatedRule, ProblemKind } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { Choice } from '../../components/choice';
import { InTerminal } from '../../components/in-terminal';
import { Note, ProblemNote } from '../../components/notes';
import { Snippet } from '../../components/snippet';
import { CHANNELS, isEvent, PROBLEM_KINDS, recipientsOf, TABLE_EVENTS } from '../../lib/notifications';
import { firn } from '../../lib/terminal';
import { NEEDS } from './needs';
import { TestButton } from './rules';

interface Draft {
  name: string;
  kinds: ProblemKind[];
  channel: Channel;
  url: string;
  recipients: string;
  catalog: string;
  resolved: boolean;
  tables: string;
}

const EMPTY: Draft = {
  name: '',
  kinds: PROBLEM_KINDS.map(({ value }) => value),
  channel: 'webhook',
  url: '',
  recipients: '',
  catalog: '',
  resolved: true,
  tables: '',
};

const reportsEvents = (draft: Draft): boolean => draft.kinds.some(isEvent);

/** `shop.*, mart.daily` as a list; nothing for a rule of problems. */
const tablesOf = (draft: Draft): string[] => (reportsEvents(draft) ? recipientsOf(draft.tables) : []);

/** Why the rule cannot be created yet. */
function missing(draft: Draft): string | null {
  if (draft.name === '') return 'Enter a name.';
  if (draft.kinds.length === 0) return 'Choose what it reports.';
  if (reportsEvents(draft) && draft.channel !== 'webhook') return 'Table events need a webhook.';
  if (draft.channel === 'mail') return recipientsOf(draft.recipients).length === 0 ? 'Enter a recipient.' : null;
  return draft.url === '' ? 'Enter the address of the webhook.' : null;
}

/** A rule, and then its secret and a test message. */
export function CreateRule({ close }: { close: () => void }) {
  const queries = useQueryClient();
  const [draft, setDraft] = useState(EMPTY);
  const create = useMutation({
    mutationFn: () =>
      answered(
        api.POST('/notifications/rules', {
          body: {
            name: draft.name,
            kinds: draft.kinds,
            channel: draft.channel,
            url: draft.channel === 'mail' ? null : draft.url,
            recipients: draft.channel === 'mail' ? recipientsOf(draft.recipients) : [],
            catalog: draft.catalog === '' ? null : draft.catalog,
            resolved: draft.resolved,
            tables: tablesOf(draft),
          },
        }),
      ),
    onSuccess: () => queries.invalidateQueries(),
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    create.mutate();
  };
  const created = create.data;
  return (
    <Modal opened onClose={close} size="lg" title={created === undefined ? 'Create rule' : `Rule ${created.name}`} closeButtonProps={{ 'aria-label': 'close' }}>
      {created === undefined ? (
        <form onSubmit={submit} className="stack">
          <Fields draft={draft} set={(values) => setDraft({ ...draft, ...values })} />
          <InTerminal
            command={firn('notification rule create', [draft.name === '' ? 'NAME' : draft.name], {
              on: draft.kinds,
              channel: draft.channel === 'webhook' ? null : draft.channel,
              to: draft.channel === 'mail' ? recipientsOf(draft.recipients) : [],
              'only-catalog': draft.catalog,
              table: tablesOf(draft),
              'silent-ends': !draft.resolved && !reportsEvents(draft),
            })}
          />
          {create.error && <ProblemNote error={create.error} />}
          <div className="row" style={{ justifyContent: 'flex-end' }}>
            <ActionButton type="submit" needs={NEEDS} loading={create.isPending} disabledReason={missing(draft)}>
              Create
            </ActionButton>
          </div>
        </form>
      ) : (
        <Created rule={created} close={close} />
      )}
    </Modal>
  );
}

const REPORTS = [
  { value: 'problems', label: 'Problems' },
  { value: 'events', label: 'Table events' },
];

const kindsOf = (chosen: string): ProblemKind[] => (chosen === 'events' ? TABLE_EVENTS : PROBLEM_KINDS).map(({ value }) => value);

function Fields({ draft, set }: { draft: Draft; set: (values: Partial<Draft>) => void }) {
  const { data: known } = useQuery(catalogs());
  const events = reportsEvents(draft);
  return (
    <>
      <TextInput label="Name" value={draft.name} onChange={(event) => set({ name: event.currentTarget.value })} data-autofocus />
      <div>
        <div>Reports</div>
        <Choice label="what it reports" value={events ? 'events' : 'problems'} set={(chosen) => set({ kinds: kindsOf(chosen), channel: 'webhook' })} options={REPORTS} />
      </div>
      <Checkbox.Group label={events ? 'Table events' : 'Problems'} value={draft.kinds} onChange={(kinds) => set(kinds.length === 0 ? {} : { kinds })}>
        <div className="stack" style={{ gap: 6, marginTop: 6 }}>
          {(events ? TABLE_EVENTS : PROBLEM_KINDS).map(({ value, label, about }) => (
            <Checkbox key={value} value={value} label={label} description={about} />
          ))}
        </div>
      </Checkbox.Group>
      {!events && (
        <div>
          <div>Channel</div>
          <Choice label="channel" value={draft.channel} set={(channel) => set({ channel: channel as Channel })} options={CHANNELS} />
        </div>
      )}
      {draft.channel === 'mail' ? (
        <TextInput label="Recipients" description="Addresses, separated by commas" value={draft.recipients} onChange={(event) => set({ recipients: event.currentTarget.value })} />
      ) : (
        <TextInput
          label={draft.channel === 'slack' ? 'Incoming webhook of Slack' : 'Address'}
          description={draft.channel === 'slack' ? 'Slack shows it once; Firn keeps it encrypted' : 'The server signs each request and follows no redirects'}
          placeholder={draft.channel === 'slack' ? 'https://hooks.slack.com/services/…' : 'https://example.com/hooks/firn'}
          value={draft.url}
          onChange={(event) => set({ url: event.currentTarget.value })}
          autoComplete="off"
        />
      )}
      <Select
        label="Catalog"
        value={draft.catalog}
        onChange={(catalog) => set({ catalog: catalog ?? '' })}
        data={[{ value: '', label: 'All catalogs' }, ...(known ?? []).map(({ name }) => ({ value: name, label: name }))]}
        allowDeselect={false}
      />
      {events ? (
        <TextInput label="Tables" description="Patterns such as shop.*, separated by commas; all tables if empty" value={draft.tables} onChange={(event) => set({ tables: event.currentTarget.value })} />
      ) : (
        <Switch label="Also report that a problem has ended" checked={draft.resolved} onChange={(event) => set({ resolved: event.currentTarget.checked })} />
      )}
    </>
  );
}

function Created({ rule, close }: { rule: CreatedRule; close: () => void }) {
  return (
    <div className="stack">
      {rule.secret !== null && (
        <Note tone="warn" title="Copy the secret now: nobody can see it again">
          The receiver checks signatures with it. docs/notifications.md shows how.
        </Note>
      )}
      {rule.secret !== null && <Snippet code={rule.secret} label="secret" wraps />}
      <div>The rule reports what happens from now on. A test message shows whether they arrive.</div>
      <TestButton rule={rule.name} />
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <ActionButton onClick={close}>Done</ActionButton>
      </div>
    </div>
  );
}
