import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';
import { createBrowserRouter, Navigate, useRouteError } from 'react-router';

import { catalogs } from './api/queries';
import { useCatalog } from './components/catalog';
import { Gate } from './components/gate';
import { useMe } from './components/current-user';
import { Empty, ProblemNote } from './components/notes';
import { Page, Panel } from './components/panel';
import { Shell } from './components/shell';
import { paths } from './lib/paths';
import { AuditPage } from './pages/access/audit';
import { ToAccess } from './pages/access/frame';
import { PeoplePage } from './pages/access/people';
import { RolePage } from './pages/access/role';
import { RolesPage } from './pages/access/roles';
import { TokensPage } from './pages/access/tokens';
import { CdcPage } from './pages/cdc/page';
import { HivePage } from './pages/hive';
import { MigrationPage } from './pages/migration';
import { UpgradeManyPage } from './pages/upgrade-many';
import { HomePage } from './pages/home';
import { ImportPage } from './pages/import';
import { JobPage } from './pages/job/page';
import { JobsPage } from './pages/jobs';
import { NotificationsPage } from './pages/notifications/page';
import { OptimizersPage } from './pages/optimizers/page';
import { PipelinesPage } from './pages/pipelines/list';
import { PipelinePage } from './pages/pipelines/page';
import { StreamsPage } from './pages/streams/page';
import { StatusPage } from './pages/status/page';
import { PoliciesPage } from './pages/policy/page';
import { SettingsPage } from './pages/settings';
import { TablePage } from './pages/table';
import { TablesPage } from './pages/tables';
import { TrendsPage } from './pages/trends';
import { UpgradePage } from './pages/upgrade';

function ToHome() {
  const { name } = useCatalog();
  const { access, admin } = useMe();
  const { data } = useQuery(catalogs());
  if (access && data === undefined) return null;
  if (access && !admin && data?.length === 0) {
    return (
      <Page title="Home">
        <Panel>
          <Empty title="Nothing is granted to you yet">Roles decide what you can see and do. Ask an administrator for one; this page updates by itself.</Empty>
        </Panel>
      </Page>
    );
  }
  return <Navigate to={paths.home(name)} replace />;
}

function Nowhere() {
  return (
    <Page title="No such page">
      <Empty title="There is no page at this address">Choose a place on the left, or search for a table above.</Empty>
    </Page>
  );
}

function Broken() {
  return (
    <Page title="This page broke">
      <ProblemNote error={useRouteError()} what="the console has a bug here; loading the page again may help" />
    </Page>
  );
}

/** Loaded when it is opened first: the editor is large. */
const SqlPage = lazy(async () => ({ default: (await import('./pages/sql/page')).SqlPage }));

export const router = createBrowserRouter([
  {
    element: (
      <Gate>
        <Shell />
      </Gate>
    ),
    errorElement: <Broken />,
    children: [
      {
        errorElement: <Broken />,
        children: [
          { path: '/', element: <ToHome /> },
          { path: '/c/:catalog', element: <HomePage /> },
          { path: '/c/:catalog/tables', element: <TablesPage /> },
          { path: '/c/:catalog/tables/:table', element: <TablePage /> },
          { path: '/c/:catalog/sql', element: <Suspense fallback={<Page title="SQL">…</Page>}><SqlPage /></Suspense> },
          { path: '/c/:catalog/policies', element: <PoliciesPage /> },
          { path: '/c/:catalog/hive', element: <HivePage /> },
          { path: '/c/:catalog/trends', element: <TrendsPage /> },
          { path: '/c/:catalog/migration', element: <MigrationPage /> },
          { path: '/c/:catalog/hive/upgrade', element: <UpgradeManyPage /> },
          { path: '/c/:catalog/hive/:table/upgrade', element: <UpgradePage /> },
          { path: '/c/:catalog/import', element: <ImportPage /> },
          { path: '/c/:catalog/cdc', element: <CdcPage /> },
          { path: '/status', element: <StatusPage /> },
          { path: '/jobs', element: <JobsPage /> },
          { path: '/jobs/:id', element: <JobPage /> },
          { path: '/streams', element: <StreamsPage /> },
          { path: '/pipelines', element: <PipelinesPage /> },
          { path: '/pipelines/:pipeline', element: <PipelinePage /> },
          { path: '/optimizers', element: <OptimizersPage /> },
          { path: '/notifications', element: <NotificationsPage /> },
          { path: '/access', element: <ToAccess /> },
          { path: '/access/people', element: <PeoplePage /> },
          { path: '/access/tokens', element: <TokensPage /> },
          { path: '/access/roles', element: <RolesPage /> },
          { path: '/access/roles/:role', element: <RolePage /> },
          { path: '/access/audit', element: <AuditPage /> },
          { path: '/settings', element: <SettingsPage /> },
          { path: '*', element: <Nowhere /> },
        ],
      },
    ],
  },
]);
