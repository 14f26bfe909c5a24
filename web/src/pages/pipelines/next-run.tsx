import { useQuery } from '@tanstack/react-query';

import { pipelinePlan } from '../../api/pipeline-queries';
import type { RunPlan } from '../../api/types';
import { Note, ProblemNote } from '../../components/notes';
import { Facts, Panel } from '../../components/panel';
import { bytes, span } from '../../lib/format';
import { plannedChanges, plannedMode } from '../../lib/run-plans';

/** What the next run of a table does, why, and what has changed in its inputs since the checkpoint. */
export function NextRun({ pipeline, table }: { pipeline: string; table: string }) {
  const { data, error } = useQuery(pipelinePlan(pipeline, table));
  if (error !== null) return <ProblemNote error={error} what="cannot plan the next run" />;
  const plan = data?.tables[0];
  if (plan === undefined) return null;
  if (plan.mode === 'fails') {
    return (
      <Note tone="bad" title="The next run would be refused">
        {plan.reason}
      </Note>
    );
  }
  const isExplained = plan.mode === 'incremental' || plan.mode === 'full';
  return (
    <Panel title="What the next run does">
      <Facts
        facts={[
          { name: 'computes', value: plannedMode(plan), ...(plan.reason === null ? {} : { note: plan.reason }) },
          ...plan.inputs.map((input) => ({
            name: input.table,
            value: plannedChanges(input),
            ...(isExplained && input.terms.length > 0 ? { note: input.terms.join('; ') } : {}),
          })),
          ...costFacts(plan),
          ...(plan.blocked == null ? [] : [{ name: 'waits', value: plan.blocked }]),
        ]}
      />
    </Panel>
  );
}

function costFacts({ mode, incremental_bytes: changed, full_bytes: full, predicted_seconds: predicted, full_seconds: fullSeconds }: RunPlan) {
  const weighed = changed == null || full == null ? [] : [{ name: 'reads about', value: bytes(changed), note: `in full ${bytes(full)}` }];
  const note = fullSeconds == null ? {} : { note: `the last full run took ${span(fullSeconds)}` };
  return [...weighed, ...(predicted == null || mode === 'nothing' ? [] : [{ name: 'takes at most', value: span(predicted), ...note }])];
}
