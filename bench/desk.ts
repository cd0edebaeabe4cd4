import { existsSync } from 'node:fs';
import { type Browser, type CDPSession, chromium, type Page, type Request } from 'playwright-core';
import { buildDesk } from '../apps/cli/test/desk/desk-stage.ts';
import { ControlPlane } from '../apps/gateway/src/testing/control-plane.ts';

/**
 * `node bench/desk.ts [calls]`: the built desk in Chromium over a real gateway with many waiting calls (5,000). For the CPU as it
 * is and slowed four times it prints, per keystroke in the search: the main thread's CPU time (Chromium's `Performance`
 * domain, thread ticks), the time from the key until the last change of the page, and the requests sent; then a scroll
 * through the list: CPU time and longest time between two frames. Ends with 1 when the median keystroke at full speed takes
 * 100 ms of CPU time or more, sends a request, or leaves a wrong list.
 */
const calls = Number(process.argv[2] ?? 5_000);
const BOUND_MS = 100;
const SLOWED = [1, 4] as const;
const ROUNDS = 5;
const AT_ONCE = 32;
const WORD = 'deploy 42';
const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const PROGRAMS = ['git push origin', 'npm run deploy', 'kubectl apply -f', 'sudo systemctl restart', 'rm -rf'];

const COUNT = new RegExp(`^${calls.toLocaleString('en')}|^${calls}`);

/** What the page asks for by the clock, whatever is typed. */
const BACKGROUND = /\/v1\/(?:freeze|requests|calls\?state=pending)/;

const plane = new ControlPlane();
const print = (line: string) => process.stdout.write(`${line}\n`);
const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

function factsOf(at: number) {
  const program = PROGRAMS[at % PROGRAMS.length] ?? '';
  return {
    agent: `agent-${at % 40}`,
    host: `host-${at % 25}`,
    tool: 'bash',
    action: 'execute',
    summary: `bash ${program} service-${at} --zone ${at % 7} --reason "change ${at * 31}"`,
  };
}

async function fill(): Promise<void> {
  const order = Array.from({ length: calls }, (_, at) => at).values();
  const worker = async () => {
    for (const at of order) await plane.pendingCall(factsOf(at));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function openDesk(browser: Browser): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: 'en' });
  const answer = await plane.request('POST', '/v1/login-links', { as: 'person', body: { subject: 'person' } });
  const { path } = (await answer.json()) as { path: string };
  await context.request.get(new URL(path, plane.address).href);
  const page = await context.newPage();
  await page.goto(plane.address);
  await page.locator('.inbox-head [role=status]').filter({ hasText: COUNT }).waitFor();
  return page;
}

/** Main thread CPU time of the page so far, ms. */
async function cpuMs(devtools: CDPSession): Promise<number> {
  const { metrics } = await devtools.send('Performance.getMetrics');
  return (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0) * 1_000;
}

/** Waits until the page has not changed for 300 ms, then tells when it last did, in ms since the last key. */
const quiet = (page: Page): Promise<number> => page.evaluate<number>('window.deskBench.quiet()');

const WATCH = `(() => {
  const told = { key: 0, changed: 0 };
  addEventListener('input', (event) => { told.key = event.timeStamp; told.changed = event.timeStamp; }, true);
  new MutationObserver(() => { told.changed = performance.now(); })
    .observe(document.querySelector('.inbox-side'), { subtree: true, childList: true, attributes: true, characterData: true });
  window.deskBench = {
    quiet: () => new Promise((resolve) => {
      const look = () => performance.now() - told.changed > 300 ? resolve(told.changed - told.key) : setTimeout(look, 20);
      look();
    }),
    frames: () => new Promise((resolve) => {
      const times = [];
      const box = document.querySelector('.call-list');
      const step = (time) => {
        times.push(time);
        box.scrollTop += 240;
        if (times.length < 180) requestAnimationFrame(step);
        else resolve(times.slice(1).map((at, index) => at - times[index]));
      };
      requestAnimationFrame(step);
    }),
  };
})()`;

type Keystrokes = { readonly cpu: number[]; readonly latency: number[]; requests: number };

async function type(page: Page, devtools: CDPSession, found: Keystrokes): Promise<void> {
  const count = (request: Request) => {
    if (!new URL(request.url()).pathname.startsWith('/v1/') || BACKGROUND.test(request.url())) return;
    found.requests += 1;
  };
  await page.getByRole('searchbox').fill('');
  await quiet(page);
  page.on('request', count);
  for (const key of WORD) {
    const before = await cpuMs(devtools);
    await page.keyboard.press(key === ' ' ? 'Space' : key);
    found.latency.push(await quiet(page));
    found.cpu.push((await cpuMs(devtools)) - before);
  }
  page.off('request', count);
}

/** CPU time that the page spends when nothing happens, in as long as one keystroke is looked at. */
async function idleMs(page: Page, devtools: CDPSession): Promise<number> {
  const before = await cpuMs(devtools);
  await quiet(page);
  return (await cpuMs(devtools)) - before;
}

async function measure(page: Page, devtools: CDPSession, slowed: number): Promise<boolean> {
  await devtools.send('Emulation.setCPUThrottlingRate', { rate: slowed });
  const found: Keystrokes = { cpu: [], latency: [], requests: 0 };
  for (let round = 0; round < ROUNDS; round += 1) await type(page, devtools, found);
  const wanted = Array.from({ length: calls }, (_, at) => factsOf(at)).filter(({ summary, agent, host }) =>
    WORD.split(' ').every((word) => [summary, agent, host].some((text) => text.includes(word))),
  ).length;
  const shown = Number(
    ((await page.locator('.inbox-head [role=status]').textContent()) ?? '').replaceAll(/\D*(\d[\d,]*).*/g, '$1'),
  );
  const worst = Math.max(...found.cpu);
  print(
    `CPU / ${slowed}: keystroke ${median(found.cpu).toFixed(1)} ms CPU (worst ${worst.toFixed(1)}, idle ${(await idleMs(page, devtools)).toFixed(1)}), ` +
      `${median(found.latency).toFixed(0)} ms until shown (worst ${Math.max(...found.latency).toFixed(0)}), ${found.requests} requests, ${shown} of ${wanted} found`,
  );
  await page.getByRole('searchbox').fill('');
  await quiet(page);
  const before = await cpuMs(devtools);
  const frames = await page.evaluate<number[]>('window.deskBench.frames()');
  const perFrame = ((await cpuMs(devtools)) - before) / frames.length;
  print(
    `CPU / ${slowed}: scroll ${perFrame.toFixed(1)} ms CPU a frame, frame ${median(frames).toFixed(1)} ms (longest ${Math.max(...frames).toFixed(0)})`,
  );
  return shown === wanted && found.requests === 0 && (slowed > 1 || median(found.cpu) < BOUND_MS);
}

async function run(): Promise<boolean> {
  await plane.start([{ name: 'person', role: 'admin' }], { deskDir: buildDesk() });
  await fill();
  const executablePath = CHROMIUM.find((file) => existsSync(file));
  if (executablePath === undefined) throw new Error('Chromium is missing; install it: apt-get install -y chromium');
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  try {
    const page = await openDesk(browser);
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('Performance.enable', { timeDomain: 'threadTicks' });
    await page.evaluate(WATCH);
    const results: boolean[] = [];
    for (const slowed of SLOWED) results.push(await measure(page, devtools, slowed));
    return results.every(Boolean);
  } finally {
    await browser.close();
  }
}

try {
  process.exitCode = (await run()) ? 0 : 1;
} finally {
  await plane.stop();
}
