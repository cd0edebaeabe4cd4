import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router';
import { InboxPage } from '../inbox/inbox-page.tsx';
import { inboxSearch } from '../inbox/inbox-search.ts';
import { Fault, NotFound } from './fault.tsx';
import { Frame } from './frame.tsx';

const root = createRootRoute({ component: Frame, notFoundComponent: NotFound, errorComponent: Fault });
/** One page for both addresses: the list keeps its place and the search its text while calls are opened and closed. */
const inboxPage = createRoute({
  getParentRoute: () => root,
  id: 'inbox',
  component: InboxPage,
  validateSearch: inboxSearch,
});
const inbox = createRoute({ getParentRoute: () => inboxPage, path: '/' });
const call = createRoute({ getParentRoute: () => inboxPage, path: '/calls/$callId' });

const fleet = createRoute({
  getParentRoute: () => root,
  path: '/fleet',
  component: lazyRouteComponent(() => import('../fleet/fleet-page.tsx'), 'FleetPage'),
});
const grants = createRoute({
  getParentRoute: () => root,
  path: '/grants',
  component: lazyRouteComponent(() => import('../grants/grants-page.tsx'), 'GrantsPage'),
});
const audit = createRoute({
  getParentRoute: () => root,
  path: '/audit',
  component: lazyRouteComponent(() => import('../audit/audit-page.tsx'), 'AuditPage'),
});

const sessions = createRoute({
  getParentRoute: () => root,
  path: '/sessions',
  component: lazyRouteComponent(() => import('../sessions/sessions-page.tsx'), 'SessionsPage'),
});
const session = createRoute({
  getParentRoute: () => root,
  path: '/sessions/$sessionId',
  component: lazyRouteComponent(() => import('../sessions/sessions-page.tsx'), 'SessionsPage'),
});
const changes = createRoute({
  getParentRoute: () => root,
  path: '/changes',
  component: lazyRouteComponent(() => import('../changes/changes-page.tsx'), 'ChangesPage'),
});
const policy = createRoute({
  getParentRoute: () => root,
  path: '/policy',
  component: lazyRouteComponent(() => import('../policy/policy-page.tsx'), 'PolicyPage'),
});
const admin = createRoute({
  getParentRoute: () => root,
  path: '/admin',
  component: lazyRouteComponent(() => import('../admin/admin-page.tsx'), 'AdminPage'),
});
const you = createRoute({
  getParentRoute: () => root,
  path: '/you',
  component: lazyRouteComponent(() => import('../passkeys/passkeys-page.tsx'), 'PasskeysPage'),
});

const guardian = createRoute({
  getParentRoute: () => root,
  path: '/guardian',
  component: lazyRouteComponent(() => import('../guardian/guardian-page.tsx'), 'GuardianPage'),
});

const insights = createRoute({
  getParentRoute: () => root,
  path: '/insights',
  component: lazyRouteComponent(() => import('../insights/insights-page.tsx'), 'InsightsPage'),
});

const tree = root.addChildren([
  inboxPage.addChildren([inbox, call]),
  sessions,
  session,
  changes,
  fleet,
  grants,
  guardian,
  policy,
  audit,
  insights,
  admin,
  you,
]);

/** The desk's addresses. Pages other than the inbox are loaded when they are opened. */
export const makeRouter = () => createRouter({ routeTree: tree, defaultPreload: 'intent', scrollRestoration: false });

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof makeRouter>;
  }
}
