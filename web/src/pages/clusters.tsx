import { useQuery } from '@tanstack/react-query';

import { clusters } from '../api/queries';
import type { Cluster } from '../api/types';
import { useSeesServer } from '../components/current-user';
import { When } from '../components/figures';
import { ProblemNote } from '../components/notes';
import { Facts, Panel } from '../components/panel';
import { BROKEN, HEALTHY, Mark } from '../components/status-icons';
import { moment } from '../lib/format';

/** The HDFS clusters under all catalogs, or under one; nothing where no warehouse is on HDFS. */
export function Clusters({ catalog }: { catalog?: string }) {
  const seesServer = useSeesServer();
  const { data, error } = useQuery({ ...clusters(), enabled: seesServer });
  if (!seesServer) return null;
  if (error !== null) return <ProblemNote error={error} what="the state of the HDFS clusters is unknown" />;
  return (data ?? [])
    .filter((cluster) => catalog === undefined || cluster.catalogs.includes(catalog))
    .map((cluster) => <ClusterPanel key={cluster.address} of={cluster} />);
}

/** Facts instead of a table: on a telephone, too, the last error is on the page and not beside it. */
function ClusterPanel({ of: cluster }: { of: Cluster }) {
  const lastError = cluster.error ?? cluster.ticket_error;
  return (
    <Panel title={`HDFS cluster ${cluster.address}`} aside={<span className="dim">checked <When at={cluster.checked_at} /></span>}>
      <Facts
        facts={[
          { name: 'state', value: <Mark look={cluster.error === null ? { ...HEALTHY, says: 'answers' } : { ...BROKEN, says: 'does not answer' }} /> },
          { name: 'name nodes', value: <NameNodes of={cluster} /> },
          { name: 'user', value: <span className="mono">{cluster.user}</span> },
          { name: 'ticket', value: <Ticket of={cluster} /> },
          { name: 'catalogs', value: <span className="mono">{cluster.catalogs.join(', ')}</span> },
          { name: 'last error', value: lastError === null ? <span className="dim">none</span> : <span className="bad">{lastError}</span> },
        ]}
      />
    </Panel>
  );
}

function NameNodes({ of: cluster }: { of: Cluster }) {
  if (cluster.name_nodes.length === 0) return <span className="dim">none known</span>;
  return cluster.name_nodes.map((address) => (
    <div key={address} className="mono">
      {address}
    </div>
  ));
}

/** Without a ticket and without an error, the next call to the cluster gets one: that needs nobody. */
function Ticket({ of: cluster }: { of: Cluster }) {
  if (!cluster.has_ticket) return <span className="dim">not used: no Kerberos principal</span>;
  if (cluster.ticket_expires_at !== null) return `valid until ${moment(cluster.ticket_expires_at)}`;
  if (cluster.ticket_error === null && cluster.error === null) return <span className="dim">none; the next call gets one</span>;
  return <Mark look={{ ...BROKEN, says: 'no ticket' }} />;
}
