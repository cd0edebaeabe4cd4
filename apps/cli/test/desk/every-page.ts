import type { Page, Route } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { axeProblems } from './axe-problems.ts';
import { LIMIT_MS, stage, stateOf, submit, withPage } from './desk-hands.ts';

/** Twenty-four pages are opened, looked at by axe, and gone through with the keyboard. */
const ALL_PAGES_MS = 180_000;

/** Markup, direction override, zero width, NUL, right-to-left, emoji, look-alike letters, line ends, a word without an end. */
const HOSTILE = `<img src=x onerror="document.title='owned'"><b>x</b>\u202e\u200b\0 👩‍💻 שלום аррӏе.com\n\n${'W'.repeat(400)}`;
/** Texts that people, agents and hosts choose. Ids, states and digests, which the page compares, stay as they are. */
const CHOSEN = new Set(
  (
    'agent host queue principal reason summary project requestText requestBy by says reach path realPath label groups ' +
    'version provider model name profile reasons refusal approver decidedByName folder content platform backends source ' +
    'pattern rule decided_by subject title about cwd hosts answered unconfirmed denyRead denyWrite environment'
  ).split(' '),
);

function poisoned(value: unknown, key = ''): unknown {
  if (Array.isArray(value)) return value.map((one) => poisoned(one, key));
  if (typeof value === 'string') return CHOSEN.has(key) ? `${value}${HOSTILE}` : value;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, poisoned(one, name)]));
}

async function poison(route: Route): Promise<void> {
  const answer = await route.fetch();
  if (!(answer.headers()['content-type'] ?? '').includes('application/json'))
    return route.fulfill({ response: answer });
  return route.fulfill({ response: answer, json: poisoned(await answer.json()) });
}

const pagesWith = (callId: string): string[] => [
  '/',
  `/calls/${callId}`,
  `/sessions/${stage.session}`,
  ...['/changes', '/fleet', '/grants', '/guardian', '/policy', '/audit', '/insights', '/admin', '/you'],
];

async function goTo(page: Page, at: string): Promise<void> {
  await page.goto(new URL(at, stage.installation.endpoints.http).href);
  await page.locator('#content h1:visible').first().waitFor();
  await expect.poll(() => page.locator('.mantine-Loader-root').count(), { timeout: LIMIT_MS }).toBe(0);
}

/** What hostile text did to the page: elements that it made, characters that act, and text beyond the edge. */
const HARM = `(() => {
  const harm = [];
  const made = document.querySelectorAll('#root img, #root b, #root script');
  if (made.length > 0) harm.push('markup: ' + made[0].outerHTML.slice(0, 80));
  const walker = document.createTreeWalker(document.querySelector('#root'), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    if (/[\\u202e\\u200b\\0]/.test(node.data)) harm.push('acting character in ' + node.parentElement.outerHTML.slice(0, 100));
  const wide = Array.from(document.querySelectorAll('#content *')).filter((one) => one.getBoundingClientRect().right > innerWidth + 1);
  for (const box of [document.documentElement, document.querySelector('#content')])
    if (box.scrollWidth > innerWidth) harm.push('wider than the page: ' + wide.map((one) => one.tagName + '.' + one.className).join(' ').slice(0, 400));
  if (document.title.includes('owned')) harm.push('a script ran');
  return harm;
})()`;

/** Where the focus is, or how it cannot be seen there; undefined when it left the page. */
const FOCUS = `(() => {
  const found = document.activeElement;
  if (!found || found === document.body) return undefined;
  const { outlineStyle, outlineWidth, boxShadow, borderColor } = getComputedStyle(found);
  const shown = (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none' || found.matches('input, select, textarea');
  const { width, height } = found.getBoundingClientRect();
  found.dataset.visits = String(Number(found.dataset.visits ?? 0) + 1);
  return { again: found.dataset.visits !== '1', bad: shown && width > 0 && height > 0 ? '' : found.outerHTML.slice(0, 120) };
})()`;
const MOST_STOPS = 120;

async function focusProblems(page: Page): Promise<string[]> {
  const problems: string[] = [];
  for (let stop = 0; stop < MOST_STOPS; stop += 1) {
    await page.keyboard.press('Tab');
    const found = await page.evaluate<{ again: boolean; bad: string } | undefined>(FOCUS);
    if (!found || found.again) return stop < 10 ? [`only ${stop} stops`] : problems;
    if (found.bad !== '') problems.push(`focus is not seen: ${found.bad}`);
  }
  return problems;
}

/** Holds for every page of the desk. */
export function everyPage(): void {
  describe('every page', () => {
    test(
      'shows hostile text of every field harmless, fits a phone with it, and has no problem that axe knows',
      () =>
        withPage({ as: 'local-admin', phone: true, dark: true }, async ({ page }) => {
          const call = await submit('bash', { command: `sudo echo ${HOSTILE.replace('\0', '')}` });
          await expect.poll(() => stateOf(call), { timeout: LIMIT_MS }).toBe('pending');
          await page.route(/\/v1\/(?!events|me$)/, poison);
          const problems: string[] = [];
          for (const at of pagesWith(call.callId)) {
            await goTo(page, at);
            const found = [...(await page.evaluate<string[]>(HARM)), ...(await axeProblems(page))];
            problems.push(...found.map((problem) => `${at}: ${problem}`));
          }
          await page.unrouteAll({ behavior: 'ignoreErrors' });
          expect(problems).toEqual([]);
        }),
      ALL_PAGES_MS,
    );

    test(
      'can be gone through with the keyboard, the focus always seen, and has no problem that axe knows',
      () =>
        withPage({ as: 'local-admin' }, async ({ page }) => {
          const call = await submit('bash', { command: 'sudo id' });
          await expect.poll(() => stateOf(call), { timeout: LIMIT_MS }).toBe('pending');
          const problems: string[] = [];
          for (const at of pagesWith(call.callId)) {
            await goTo(page, at);
            const found = [...(await axeProblems(page)), ...(await focusProblems(page))];
            problems.push(...found.map((problem) => `${at}: ${problem}`));
          }
          expect(problems).toEqual([]);
          await goTo(page, `/calls/${call.callId}`);
          await page.locator('.decision[data-settled="true"]').waitFor();
          await page.keyboard.press('Escape');
          await expect
            .poll(() => page.evaluate('document.activeElement?.dataset.call'), { timeout: LIMIT_MS })
            .toBe(call.callId);
          expect(new URL(page.url()).pathname).toBe('/');
          await page.keyboard.press('Enter');
          await page.locator('.decision').waitFor();
          await page.goBack();
          await page.getByText('Choose a call to review it').waitFor();
          expect(await stateOf(call)).toBe('pending');
        }),
      ALL_PAGES_MS,
    );
  });
}
