import { describe, expect, test } from 'vitest';
import { type BackendOffer, chooseBackend } from './backend.ts';

const linux: BackendOffer = { platform: 'bubblewrap', platformOff: '', appGuardOff: 'not accepted' };
const guarded: BackendOffer = { platform: 'bubblewrap', platformOff: '', appGuardOff: '' };
const mac: BackendOffer = { platform: 'seatbelt', platformOff: '', appGuardOff: '' };
const bare: BackendOffer = { platform: 'bubblewrap', platformOff: 'canaries got through', appGuardOff: '' };

describe('the backend of a command', () => {
  test.each([
    ['nothing named', '', linux, 'bubblewrap'],
    ['auto', 'auto', linux, 'bubblewrap'],
    ['auto on a Mac', 'auto', mac, 'seatbelt'],
    ['auto never takes the app-guard', 'auto', bare, undefined],
    ['the one of the platform', 'bubblewrap', linux, 'bubblewrap'],
    ['one of another platform', 'seatbelt', guarded, undefined],
    ['one of another platform, on a Mac', 'bubblewrap', mac, undefined],
    ['the app-guard where it is off', 'app-guard', linux, undefined],
    ['the app-guard where it is on', 'app-guard', guarded, 'app-guard'],
    ['the app-guard without a sandbox', 'app-guard', bare, 'app-guard'],
    ['a name of a later version', 'gvisor', guarded, undefined],
    ['a name in another spelling', 'App-Guard', guarded, undefined],
  ] as const)('%s', (_title, backend, offer, wanted) => {
    const found = chooseBackend({ backend, fallback: false, hardened: false }, offer);
    expect(found.ok ? found.value : undefined).toBe(wanted);
  });

  test.each([
    ['another sandbox stands in', 'seatbelt', linux, 'bubblewrap'],
    ['a sandbox stands in for the app-guard', 'app-guard', linux, 'bubblewrap'],
    ['the app-guard stands in for nothing', 'bubblewrap', bare, undefined],
    ['nor does it for what nobody named', 'auto', bare, undefined],
    ['nothing stands in for an unknown name', 'gvisor', linux, undefined],
  ] as const)('with a fallback, %s', (_title, backend, offer, wanted) => {
    const found = chooseBackend({ backend, fallback: true, hardened: false }, offer);
    expect(found.ok ? found.value : undefined).toBe(wanted);
  });

  test.each(['app-guard', 'seatbelt'])('hardened mode has neither %s nor a stand-in for it', (backend) => {
    expect(chooseBackend({ backend, fallback: true, hardened: true }, guarded).ok).toBe(false);
  });

  test('a refusal names the backend and the cause', () => {
    expect(chooseBackend({ backend: 'app-guard', fallback: false, hardened: true }, guarded)).toEqual({
      ok: false,
      error: 'backend `app-guard` is off: hardened mode runs commands only in a sandbox',
    });
    expect(chooseBackend({ backend: 'seatbelt', fallback: false, hardened: false }, linux)).toEqual({
      ok: false,
      error: 'backend `seatbelt` is off: this host has `bubblewrap`',
    });
    expect(chooseBackend({ backend: '', fallback: true, hardened: false }, bare)).toEqual({
      ok: false,
      error: 'backend `bubblewrap` is off: canaries got through',
    });
  });
});
