import { createInterface } from 'node:readline';
import { type BrowserContext, chromium, errors, type Page } from 'playwright-core';
import type { DriverReply, DriverRequest } from './driver-message.ts';

/**
 * Drives Chromium inside the sandbox of one session. It sees no more than the sandbox does and answers each line of its
 * input with a line. Chromium's own sandbox needs user namespaces, which this one does not give; it is confined from
 * outside instead.
 */
const [program = '', proxy = '', home = ''] = process.argv.slice(2);
const START_MS = 30_000;
/** A click or a key may lead to another page; so long is waited for that. */
const SETTLE_MS = 500;
const MAX_TEXT_CHARS = 200_000;
const MAX_OUTLINE_CHARS = 20_000;
const MAX_PICTURE_BYTES = 700_000;
const MAX_PAGES = 4;

type Shown = { readonly text: string; readonly isCut: boolean; readonly picture: string };

const cut = (text: string, most: number): Shown => ({
  text: text.slice(0, most),
  isCut: text.length > most,
  picture: '',
});

/** Roles, names and texts of the page, from which an agent tells what it can click. */
async function outline(page: Page, timeout: number): Promise<Shown> {
  return cut(await page.locator('body').ariaSnapshot({ timeout }), MAX_OUTLINE_CHARS);
}

/** The text that a reader of the page sees. */
async function textOf(page: Page, selector: string, timeout: number): Promise<string> {
  const found = page.locator(selector);
  await found.first().waitFor({ state: 'attached', timeout });
  return (await found.allInnerTexts()).join('\n');
}

async function picture(page: Page, timeout: number): Promise<Shown> {
  const lossless = await page.screenshot({ type: 'png', timeout });
  const bytes =
    lossless.length <= MAX_PICTURE_BYTES ? lossless : await page.screenshot({ type: 'jpeg', quality: 50, timeout });
  if (bytes.length > MAX_PICTURE_BYTES) throw new Error('the picture is too large');
  return { text: '', isCut: false, picture: bytes.toString('base64') };
}

/** Does what may lead to another page, and waits until that one can be read. */
async function andSettle(page: Page, timeout: number, act: () => Promise<unknown>): Promise<void> {
  const leaves = page.waitForEvent('framenavigated', { timeout: timeout + SETTLE_MS }).catch(() => undefined);
  await act();
  let timer: NodeJS.Timeout | undefined;
  const settled = new Promise((resolve) => {
    timer = setTimeout(resolve, SETTLE_MS);
  });
  await Promise.race([leaves, settled]);
  clearTimeout(timer);
  await page.waitForLoadState('domcontentloaded', { timeout });
}

class Driver {
  private readonly context: BrowserContext;
  private page: Page | undefined;

  constructor(context: BrowserContext) {
    this.context = context;
    context.on('page', (page) => {
      this.page = page;
      const [oldest] = context.pages();
      if (context.pages().length > MAX_PAGES) void oldest?.close().catch(() => undefined);
    });
  }

  async act({ args, timeoutMs }: DriverRequest): Promise<DriverReply> {
    const page = args.action === 'open' ? await this.fresh() : this.open(args.url);
    const shown = await this.perform(page, args, timeoutMs);
    const now = this.page ?? page;
    return { ok: true, url: now.url().slice(0, 8_192), title: (await now.title()).slice(0, 1_000), ...shown };
  }

  private async perform(page: Page, args: DriverRequest['args'], timeout: number): Promise<Shown> {
    const { url, selector = '', text = '', submit = false } = args;
    switch (args.action) {
      case 'open':
        await page.goto(url, { waitUntil: 'domcontentloaded', timeout });
        return outline(page, timeout);
      case 'click':
        await andSettle(page, timeout, () => page.locator(selector).click({ timeout }));
        return outline(this.page ?? page, timeout);
      case 'type':
        await andSettle(page, timeout, async () => {
          await page.locator(selector).fill(text, { timeout });
          if (submit) await page.locator(selector).press('Enter', { timeout });
        });
        return outline(this.page ?? page, timeout);
      case 'read':
        return cut(await textOf(page, selector || 'body', timeout), MAX_TEXT_CHARS);
      case 'screenshot':
        return picture(page, timeout);
    }
  }

  /** A page of its own for each `open`; the ones before go without being waited for. */
  private async fresh(): Promise<Page> {
    for (const old of this.context.pages()) void old.close().catch(() => undefined);
    this.page = await this.context.newPage();
    return this.page;
  }

  /** The page that the decision was about: the one that is open, at that host. */
  private open(url: string): Page {
    if (!this.page || this.page.isClosed()) throw new Error('no page is open; use `open` first');
    const there = new URL(this.page.url()).host;
    if (there !== new URL(url).host) throw new Error(`the page is at \`${there}\` now; name its address`);
    return this.page;
  }
}

async function start(): Promise<Driver> {
  const browser = await chromium.launch({
    executablePath: program,
    chromiumSandbox: false,
    timeout: START_MS,
    proxy: { server: proxy, bypass: '<-loopback>' },
    args: ['--disable-gpu'],
    env: { ...process.env, HOME: home },
  });
  browser.once('disconnected', () => process.exit(1));
  return new Driver(await browser.newContext({ acceptDownloads: false, serviceWorkers: 'block' }));
}

const starting = start();
starting.catch(() => undefined);
const answer = (reply: DriverReply): void => void process.stdout.write(`${JSON.stringify(reply)}\n`);

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line) as DriverRequest;
  try {
    answer(await (await starting).act(request));
  } catch (error) {
    const text = error instanceof Error ? error.message : 'failed';
    const [first = ''] = text.split('\n');
    // A page that does not open may hold its process for ever.
    const isOver = request.args.action === 'open' && error instanceof errors.TimeoutError;
    answer({ ok: false, message: first.slice(0, 500), isOver });
  }
}
process.exit(0);
