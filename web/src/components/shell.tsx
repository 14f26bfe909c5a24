import { ActionIcon, AppShell, Burger, Button, Kbd, Menu, Tooltip, useMantineColorScheme } from '@mantine/core';
import { useDisclosure, useHotkeys, useOs } from '@mantine/hooks';
import {
  IconActivity,
  IconAlertTriangleFilled,
  IconBell,
  IconChevronDown,
  IconCpu,
  IconHexagonLetterH,
  IconHome,
  IconListDetails,
  IconMoon,
  IconRipple,
  IconSearch,
  IconSettings,
  IconShieldLock,
  IconSitemap,
  IconSun,
  IconTable,
  IconTerminal2,
} from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { Link, NavLink, Outlet, useLocation, useNavigate } from 'react-router';

import { catalogs } from '../api/queries';
import type { JobStatus } from '../api/types';
import { SERVER } from '../lib/access';
import { clock, count, many } from '../lib/format';
import { paths } from '../lib/paths';
import { useCatalog } from './catalog';
import { Logo } from './logo';
import { useMe, usePulse, useSeesServer, useWhyNot } from './current-user';
import { Search, openSearch } from './search';
import { Who } from './who';
import styles from './shell.module.css';

const UNTOLD_MS = 15_000;

/** What surrounds every page: where one is, what needs somebody, search, and whether the server still answers. */
export function Shell() {
  const [opened, { toggle, close }] = useDisclosure();
  const os = useOs();
  const location = useLocation();
  const place = location.pathname;
  useEffect(close, [place, close]);
  useFreshness();
  return (
    <AppShell header={{ height: 46 }} navbar={{ width: 172, breakpoint: 'sm', collapsed: { mobile: !opened } }}>
      <a className={styles.skip} href="#content">
        to the content
      </a>
      <AppShell.Header className={styles.header}>
        <Burger opened={opened} onClick={toggle} hiddenFrom="sm" size="sm" aria-label="navigation" />
        <Brand />
        <CatalogChoice />
        <div className="grow" />
        <Button
          variant="default"
          className={styles.search}
          onClick={openSearch}
          leftSection={<IconSearch size={14} />}
          rightSection={
            <Kbd size="xs" visibleFrom="sm">
              {os === 'macos' ? '⌘K' : 'Ctrl K'}
            </Kbd>
          }
        >
          <span className={styles.searchText}>Search</span>
        </Button>
        <NeedsYou />
        <SchemeToggle />
        <Who />
      </AppShell.Header>
      <AppShell.Navbar className={styles.navbar}>
        <Places />
        <Version />
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1} className={styles.main}>
        <Stale />
        <Outlet />
      </AppShell.Main>
      <Search />
    </AppShell>
  );
}

function Brand() {
  const { name } = useCatalog();
  return (
    <Link to={paths.home(name)} className={styles.brand} aria-label="Firn, home">
      <Logo />
      Firn
    </Link>
  );
}

function CatalogChoice() {
  const { name } = useCatalog();
  const navigate = useNavigate();
  const { data } = useQuery(catalogs());
  return (
    <Menu position="bottom-start">
      <Menu.Target>
        <Button variant="subtle" color="gray" className="mono" rightSection={<IconChevronDown size={13} />} aria-label={`catalog ${name}`}>
          {name}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>Catalogs</Menu.Label>
        {data?.map((item) => (
          <Menu.Item key={item.name} className="mono" onClick={() => void navigate(paths.home(item.name))}>
            {item.name}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item onClick={() => void navigate(paths.settings())}>Manage catalogs</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function Places() {
  const { name } = useCatalog();
  const { data } = usePulse();
  const { access } = useMe();
  const mayNotify = useWhyNot()({ privilege: 'grant', on: SERVER }) === null;
  const { pathname } = useLocation();
  const active = sum(data?.counts, ['pending', 'running', 'committing', 'unknown']);
  const places = [
    { to: paths.home(name), label: 'Home', icon: IconHome, end: true, also: paths.trends(name) },
    { to: paths.tables(name), label: 'Tables', icon: IconTable },
    { to: paths.sql(name), label: 'SQL', icon: IconTerminal2 },
    { to: paths.hive(name), label: 'Hive', icon: IconHexagonLetterH, also: paths.migration(name) },
    { to: paths.status(), label: 'Status', icon: IconActivity },
    { to: paths.jobs(), label: 'Jobs', icon: IconListDetails, badge: active },
    { to: paths.streams(), label: 'Streams', icon: IconRipple },
    { to: paths.pipelines(), label: 'Pipelines', icon: IconSitemap },
    { to: paths.optimizers(), label: 'Optimizers', icon: IconCpu },
    ...(mayNotify ? [{ to: paths.notifications(), label: 'Notifications', icon: IconBell }] : []),
    ...(access ? [{ to: paths.access(), label: 'Access', icon: IconShieldLock }] : []),
    { to: paths.settings(), label: 'Settings', icon: IconSettings },
  ];
  return (
    <nav aria-label="places" className={styles.places}>
      {places.map(({ to, label, icon: Shape, end, badge, also }) => (
        <NavLink key={label} to={to} end={end ?? false} className={styles.place} data-within={pathname === also}>
          <Shape size={16} stroke={1.7} aria-hidden />
          <span className="grow">{label}</span>
          {badge !== undefined && badge > 0 && (
            <span className={styles.badge} title={`${many(badge, 'job')} in the queue or running`}>
              {count(badge)}
            </span>
          )}
        </NavLink>
      ))}
    </nav>
  );
}

function sum(counts: Partial<Record<JobStatus, number>> | undefined, statuses: JobStatus[]): number {
  return statuses.reduce((total, status) => total + (counts?.[status] ?? 0), 0);
}

function NeedsYou() {
  const { data } = usePulse();
  const failing = data?.health?.tasks.filter((task) => task.error !== null).length ?? 0;
  const needs = sum(data?.counts, ['unknown']) + failing;
  if (needs === 0) return null;
  return (
    <Button component={Link} to="/" variant="subtle" color="orange" className={styles.needs} leftSection={<IconAlertTriangleFilled size={14} />}>
      {needs} {needs === 1 ? 'needs' : 'need'} you
    </Button>
  );
}

function SchemeToggle() {
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const isDark =
    colorScheme === 'dark' || (colorScheme === 'auto' && window.matchMedia('(prefers-color-scheme: dark)').matches);
  const label = isDark ? 'light colours' : 'dark colours';
  return (
    <Tooltip label={label}>
      <ActionIcon onClick={() => setColorScheme(isDark ? 'light' : 'dark')} aria-label={label}>
        {isDark ? <IconSun size={16} /> : <IconMoon size={16} />}
      </ActionIcon>
    </Tooltip>
  );
}

function Version() {
  const { data } = usePulse();
  return <div className={styles.version}>{data?.health ? `${data.health.version} · ${data.health.database}` : ' '}</div>;
}

/** Says since when the page may be old. */
function Stale() {
  const { isError, dataUpdatedAt, error } = usePulse();
  if (!isError) return null;
  return (
    <div className={styles.stale} role="status">
      <IconAlertTriangleFilled size={15} aria-hidden />
      {error.message} {dataUpdatedAt > 0 && `What you see is from ${clock(dataUpdatedAt)}. `}
      Trying again every few seconds.
    </div>
  );
}

/** Asks again for what is on the screen when the pulse has changed: a commit, a job, a lost or a regained server. */
function useFreshness(): void {
  const queries = useQueryClient();
  const { data, isError, dataUpdatedAt } = usePulse();
  const seesServer = useSeesServer();
  // Who may not see the server is not told of commits either: their pages are asked for again now and then.
  const tick = seesServer ? 0 : Math.floor(dataUpdatedAt / UNTOLD_MS);
  const state = isError ? 'lost' : JSON.stringify([data?.health?.last_event_id, data?.counts, tick]);
  const before = useRef(state);
  useHotkeys([['mod+K', openSearch]]);
  useEffect(() => {
    if (before.current === state) return;
    before.current = state;
    if (state === 'lost') return;
    void queries.invalidateQueries({ predicate: ({ queryKey, meta }) => queryKey[0] !== 'pulse' && meta?.costly !== true });
  }, [queries, state]);
}
