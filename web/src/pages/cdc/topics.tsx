import { Checkbox, Select, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';

import { topics as topicsQuery } from '../../api/cdc-queries';
import { connections } from '../../api/stream-queries';
import { ActionButton } from '../../components/action-button';
import { Empty, ProblemNote } from '../../components/notes';
import { matchesPattern } from '../../lib/cdc';
import { many } from '../../lib/format';
import { paths } from '../../lib/paths';
import styles from '../upgrade.module.css';
import { Footer } from './footer';
import type { StepProps } from './page';

/** Which topics of which connection: ticked by name, or named by a pattern, so that later topics belong to it, too. */
export function TopicsStep({ draft, change, go }: StepProps) {
  const { data: known, error } = useQuery(connections(true));
  if (error !== null) return <ProblemNote error={error} what="cannot list the connections" />;
  if (known?.length === 0) {
    return (
      <Empty title="No connection to Kafka yet">
        Create one in a terminal: <code className="mono">firn connection create kafka main --brokers kafka-1:9092</code>. <Link to={paths.settings()} className="inline">Settings</Link> lists them.
      </Empty>
    );
  }
  return (
    <div className="stack">
      <Select
        label="Connection"
        placeholder="Choose a connection to Kafka"
        w={320}
        value={draft.connection}
        data={(known ?? []).map(({ name }) => name)}
        onChange={(connection) => change({ connection, topics: [], format: null, rules: [] })}
      />
      {draft.connection !== null && <Topics draft={draft} change={change} />}
      <Footer next={() => go(1)} missing={draft.connection === null ? 'Choose a connection.' : draft.topics.length === 0 ? 'Choose topics.' : null} />
    </div>
  );
}

function Topics({ draft, change }: Pick<StepProps, 'draft' | 'change'>) {
  const [typed, type] = useState('');
  const [search] = useDebouncedValue(typed.trim(), 200);
  const isPattern = typed.includes('*');
  const { data, error, isFetching } = useQuery({ ...topicsQuery(draft.connection, search.split('*')[0] ?? ''), placeholderData: keepPreviousData });
  const taken = (name: string) => draft.topics.some((topic) => matchesPattern(name, topic));
  const toggle = (topic: string) => change({ topics: draft.topics.includes(topic) ? draft.topics.filter((other) => other !== topic) : [...draft.topics, topic] });
  const shown = (data?.topics ?? []).filter((name) => !isPattern || matchesPattern(name, typed.trim()));
  return (
    <>
      <div className="row row-wrap">
        <TextInput
          aria-label="search topics, or a pattern"
          placeholder="Part of a name, or a pattern as shop.*"
          leftSection={<IconSearch size={14} />}
          w={320}
          value={typed}
          onChange={(event) => type(event.currentTarget.value)}
        />
        <ActionButton
          variant="default"
          disabledReason={!isPattern ? 'Enter a pattern with an asterisk, or tick topics below.' : draft.topics.includes(typed.trim()) ? 'The pattern is there already.' : null}
          onClick={() => toggle(typed.trim())}
        >
          Add pattern
        </ActionButton>
      </div>
      {draft.topics.length > 0 && (
        <div className="row row-wrap" aria-label="chosen topics" role="group">
          {draft.topics.map((topic) => (
            <Checkbox key={topic} size="xs" checked onChange={() => toggle(topic)} label={<span className="mono wrap-anywhere">{topic}</span>} />
          ))}
        </div>
      )}
      {error !== null && <ProblemNote error={error} what="cannot list the topics" />}
      {data !== undefined && shown.length === 0 && !isFetching && <span className="dim">No topic matches.</span>}
      {shown.length > 0 && (
        <div className={styles.inner} role="group" aria-label="topics" tabIndex={0} style={{ padding: 10, maxHeight: 300 }}>
          {shown.map((topic) => (
            <Checkbox
              key={topic}
              size="xs"
              mb={6}
              checked={taken(topic)}
              disabled={taken(topic) && !draft.topics.includes(topic)}
              onChange={() => toggle(topic)}
              label={<span className="mono wrap-anywhere">{topic}</span>}
            />
          ))}
        </div>
      )}
      {data !== undefined && data.more > 0 && <span className="dim">{`${many(data.more, 'more topic')}: search by name`}</span>}
    </>
  );
}
