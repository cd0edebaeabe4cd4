import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import type { Agent } from '@countersign/agent';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { z } from 'zod';
import { installationPath } from '../../src/embedded/data-folder.ts';
import { enrolSamples } from '../../src/embedded/enrol.ts';
import { type Installation, startInstallation } from '../../src/embedded/installation.ts';
import { sampleAgent } from '../../src/embedded/samples.ts';

const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const PHONE = { width: 390, height: 844 };
const DESKTOP = { width: 1280, height: 800 };

/** One running installation with a browser, for every test of the desk. */
export type DeskStage = {
  readonly installation: Installation;
  readonly agent: Agent;
  readonly session: string;
  readonly browser: Browser;
  /** A signed-in page. Whatever its content security policy stopped is kept in `violations`. */
  readonly open: (options?: OpenOptions) => Promise<DeskPage>;
  readonly stop: () => Promise<void>;
};
export type OpenOptions = {
  readonly at?: string;
  readonly language?: string;
  readonly dark?: boolean;
  readonly phone?: boolean;
  readonly as?: string;
};
export type DeskPage = {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly violations: readonly string[];
};

function newestChange(folder: string): number {
  return Math.max(
    ...readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => statSync(path.join(entry.parentPath, entry.name)).mtimeMs),
  );
}

/** Builds the desk unless the present build is newer than its source. */
export function buildDesk(): string {
  const desk = path.join(installationPath(), 'apps/desk');
  const built = path.join(desk, 'dist/index.html');
  const source = Math.max(
    newestChange(path.join(desk, 'src')),
    ...['index.html', 'vite.config.ts', 'package.json'].map((name) => statSync(path.join(desk, name)).mtimeMs),
  );
  if (existsSync(built) && statSync(built).mtimeMs > source) return path.dirname(built);
  const vite = path.join(installationPath(), 'node_modules/vite/bin/vite.js');
  const { status, stderr } = spawnSync(process.execPath, [vite, 'build', '--logLevel', 'error'], {
    cwd: desk,
    encoding: 'utf8',
    // A test runner's own value would give React's development build.
    env: { ...process.env, NODE_ENV: 'production' },
  });
  if (status !== 0) throw new Error(`the desk cannot be built: ${stderr}`);
  return path.dirname(built);
}

function launch(): Promise<Browser> {
  const executablePath = CHROMIUM.find((file) => existsSync(file));
  if (executablePath === undefined)
    throw new Error(
      'Chromium is missing, and the desk is tested in a real one; install it: apt-get install -y chromium',
    );
  // The tests run as root in containers, where Chromium's own sandbox cannot start; it opens only our own pages.
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
}

async function loginPath(installation: Installation, subject: string | undefined): Promise<string> {
  const client = installation.client(subject === undefined ? 'local-operator' : 'local-admin');
  const link = await client.request(
    'POST',
    '/v1/login-links',
    z.object({ path: z.string() }),
    subject === undefined ? {} : { subject },
  );
  if (!link.ok) throw new Error(link.error.detail);
  return link.value.path;
}

/** Signs in once for each kind of browser; later pages share its cookie and cache. */
async function signIn({ installation, browser }: Parts, options: OpenOptions): Promise<BrowserContext> {
  const context = await browser.newContext({
    viewport: options.phone ? PHONE : DESKTOP,
    colorScheme: options.dark ? 'dark' : 'light',
    locale: options.language ?? 'en',
    reducedMotion: 'reduce',
  });
  const path = await loginPath(installation, options.as);
  await context.request.get(new URL(path, installation.endpoints.http).href);
  return context;
}

type Parts = Pick<DeskStage, 'installation' | 'browser'>;

async function openPage(parts: Parts, contexts: Map<string, BrowserContext>, options: OpenOptions): Promise<DeskPage> {
  const { at = '/', ...kind } = options;
  const key = JSON.stringify(kind);
  const context = contexts.get(key) ?? (await signIn(parts, options));
  contexts.set(key, context);
  const page = await context.newPage();
  const violations: string[] = [];
  page.on('console', (message) => {
    if (/content security policy/i.test(message.text())) violations.push(message.text());
  });
  page.on('pageerror', (error) => violations.push(`error: ${error.message}`));
  await page.goto(new URL(at, parts.installation.endpoints.http).href);
  await page.locator('#content').waitFor();
  return { page, context, violations };
}

/** Starts everything, with `settings` of the installation. The first failure stops what was started. */
export async function startDeskStage(settings?: string): Promise<DeskStage> {
  buildDesk();
  const root = mkdtempSync(path.join(process.getuid?.() === 0 ? '/var/lib' : homedir(), 'countersign-desk-'));
  // The run account must be able to enter the folders above its project.
  chmodSync(root, 0o711);
  if (settings !== undefined) {
    mkdirSync(path.join(root, 'private'), { mode: 0o700 });
    writeFileSync(path.join(root, 'private/settings.yaml'), settings, { mode: 0o600 });
  }
  const stops: (() => Promise<void>)[] = [async () => rmSync(root, { recursive: true, force: true })];
  const stop = async () => {
    for (const one of stops.reverse()) await one().catch(() => undefined);
  };
  try {
    const browser = await launch();
    stops.push(() => browser.close());
    const installation = await startInstallation(root, () => undefined);
    stops.push(installation.stop);
    await enrolSamples(installation);
    const agent = await sampleAgent(installation);
    stops.push(() => agent.close());
    const opened = await agent.openSession({
      project: installation.data.sampleProject,
      host: 'local',
      requestText: 'keep the notes in order',
    });
    if (!opened.ok) throw new Error(opened.error.message);
    const parts = { installation, browser };
    const contexts = new Map<string, BrowserContext>();
    const open = (options: OpenOptions = {}) => openPage(parts, contexts, options);
    return { ...parts, agent, session: opened.value.sessionId, open, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
