import { Stepper } from '@mantine/core';
import { useState } from 'react';
import { useParams } from 'react-router';

import { useWhyNot } from '../../components/current-user';
import { Empty } from '../../components/notes';
import { Page, Panel } from '../../components/panel';
import { SERVER, type Need } from '../../lib/access';
import { EMPTY, missingIn, type Draft } from '../../lib/cdc';
import styles from '../upgrade.module.css';
import { PlanStep } from './plan';
import { RoutingStep } from './routing';
import { SampleStep } from './sample';
import { TopicsStep } from './topics';
import { TypesStep } from './types';

const NEEDS: Need[] = [{ privilege: 'grant', on: SERVER }];
const STEPS = ['Topics', 'Sample', 'Routing', 'Types', 'Plan'];

export interface StepProps {
  catalog: string;
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
  go: (step: number) => void;
}

/** From topics of Kafka to a sync file in five steps. Nothing is created: a process of the user runs the file. */
export function CdcPage() {
  const { catalog = '' } = useParams();
  const reason = useWhyNot()(...NEEDS);
  return (
    <Page title="Set up change data capture" sub="Writes the file with which firn cdc brings the tables of a database into the lake. Nothing changes in the lake here.">
      {reason === null ? (
        <Wizard catalog={catalog} />
      ) : (
        <Panel>
          <Empty title="This needs an administrator">The wizard reads topics with the connections of the server. {reason}</Empty>
        </Panel>
      )}
    </Page>
  );
}

function Wizard({ catalog }: { catalog: string }) {
  const [step, go] = useState(0);
  const [draft, setDraft] = useState<Draft>(EMPTY);
  const change = (changes: Partial<Draft>) => setDraft((before) => ({ ...before, ...changes }));
  const parts = { catalog, draft, change, go };
  return (
    <Panel>
      <Stepper
        active={step}
        onStepClick={go}
        size="xs"
        iconSize={24}
        allowNextStepsSelect={missingIn(draft) === null}
        classNames={{ steps: styles.steps ?? '', stepLabel: styles.stepLabel ?? '' }}
      >
        {STEPS.map((label) => (
          <Stepper.Step key={label} label={label} />
        ))}
      </Stepper>
      <div className={styles.body}>
        {step === 0 && <TopicsStep {...parts} />}
        {step === 1 && <SampleStep {...parts} />}
        {step === 2 && <RoutingStep {...parts} />}
        {step === 3 && <TypesStep {...parts} />}
        {step === 4 && <PlanStep {...parts} />}
      </div>
    </Panel>
  );
}
