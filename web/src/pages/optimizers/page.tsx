import { useQuery } from '@tanstack/react-query';

import { groups as groupsQuery } from '../../api/queries';
import { useOptimizers, useSeesServer } from '../../components/current-user';
import { Empty } from '../../components/notes';
import { Page, Panel } from '../../components/panel';
import { Snippet } from '../../components/snippet';
import { loadsOf } from '../../lib/fleet';
import { Groups } from './groups';
import { Launches } from './launches';
import { Workers } from './workers';

/** The processes that run jobs, and the groups they work in. */
export function OptimizersPage() {
  const sees = useSeesServer();
  const workers = useOptimizers();
  const groups = useQuery(groupsQuery(sees));
  if (!sees) {
    return (
      <Page title="Optimizers">
        <Panel>
          <Empty title="You may not see the optimizers">This needs the privilege “list” on the server.</Empty>
        </Panel>
      </Page>
    );
  }
  const loads = groups.data && workers.data && loadsOf(groups.data, workers.data);
  return (
    <Page title="Optimizers" sub="Processes that run the jobs of this server. You can stop one at any time: its unfinished jobs go back to the queue.">
      <Groups loads={loads} error={groups.error ?? workers.error} />
      <Launches groups={groups.data?.filter(({ wanted }) => wanted !== null).map(({ name }) => name) ?? []} />
      <Workers workers={workers.data} error={workers.error} />
      <Panel title="Start an optimizer">
        <div className="stack">
          <Snippet label="local optimizer" code={`firn optimizer --server ${location.origin}`} />
          <span className="dim">
            Runs Spark on the machine's own cores and needs Java 17 or 21. With <span className="mono">--group NAME</span> it serves only tables whose policy
            says <span className="mono">firn.optimize.group=NAME</span>.
          </span>
        </div>
      </Panel>
    </Page>
  );
}
