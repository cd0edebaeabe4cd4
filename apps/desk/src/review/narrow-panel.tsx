import { Checkbox, Textarea, TextInput } from '@mantine/core';
import { useTranslation } from 'react-i18next';
import type { CallDetail, Narrowing } from '../api/calls.ts';
import { duration } from '../inbox/clock.ts';
import { plainVisible } from '../text/visible-text.ts';

/** What a person took away so far, as typed. */
export type NarrowForm = {
  readonly removedHosts: readonly string[];
  readonly seconds: string;
  readonly readOnly: string;
};
export const NOTHING_TAKEN: NarrowForm = { removedHosts: [], seconds: '', readOnly: '' };

/** Calls that run something; a file tool touches one path, so that nothing could be taken away. */
export const canNarrow = (call: CallDetail): boolean => call.action === 'execute' && call.view.timeoutMs !== undefined;

const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);

/** The narrowing that the form stands for: undefined when nothing was taken away, `false` when the time is not a shorter one. */
export function narrowingOf(form: NarrowForm, { view }: CallDetail): Narrowing | undefined | false {
  const hosts = (view.hosts ?? []).filter((host) => !form.removedHosts.includes(host));
  const timeoutMs = form.seconds.trim() === '' ? undefined : Number(form.seconds) * 1_000;
  const readOnlyPaths = linesOf(form.readOnly);
  const fits = timeoutMs === undefined || (Number.isInteger(timeoutMs) && timeoutMs > 0);
  if (!fits || (timeoutMs ?? 0) > (view.timeoutMs ?? 0)) return false;
  const narrowing = {
    ...(form.removedHosts.length === 0 ? {} : { hosts }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(readOnlyPaths.length === 0 ? {} : { readOnlyPaths }),
  };
  return Object.keys(narrowing).length === 0 ? undefined : narrowing;
}

type Props = {
  readonly call: CallDetail;
  readonly form: NarrowForm;
  readonly onChange: (form: NarrowForm) => void;
};

/** Takes hosts, time and writable paths away from the call before it is approved. */
export function NarrowPanel({ call, form, onChange }: Props) {
  const { t } = useTranslation();
  const { hosts = [], timeoutMs = 0 } = call.view;
  const turn = (host: string, keep: boolean) =>
    onChange({
      ...form,
      removedHosts: keep ? form.removedHosts.filter((one) => one !== host) : [...form.removedHosts, host],
    });
  const wrongTime = narrowingOf({ ...NOTHING_TAKEN, seconds: form.seconds }, call) === false;
  return (
    <details className="small narrow">
      <summary>{t('narrow.title')}</summary>
      <div className="stack">
        {hosts.length > 0 && (
          <fieldset>
            <legend>{t('narrow.hosts')}</legend>
            {hosts.map((host) => (
              <Checkbox
                key={host}
                size="xs"
                label={plainVisible(host)}
                checked={!form.removedHosts.includes(host)}
                onChange={(event) => turn(host, event.currentTarget.checked)}
              />
            ))}
          </fieldset>
        )}
        <div className="narrow-fields">
          <TextInput
            size="xs"
            inputMode="numeric"
            label={t('narrow.time')}
            description={t('narrow.timeHint', { time: duration(t, timeoutMs) })}
            error={wrongTime ? t('narrow.timeWrong') : undefined}
            value={form.seconds}
            maxLength={9}
            onChange={(event) => onChange({ ...form, seconds: event.currentTarget.value })}
          />
          <Textarea
            size="xs"
            label={t('narrow.readOnly')}
            description={t('narrow.readOnlyHint')}
            value={form.readOnly}
            autosize
            minRows={1}
            maxRows={4}
            maxLength={20_000}
            onChange={(event) => onChange({ ...form, readOnly: event.currentTarget.value })}
          />
        </div>
      </div>
    </details>
  );
}
