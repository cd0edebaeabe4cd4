import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Call } from '../api/calls.ts';
import { useLiveCalls } from '../live/live-context.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { useAlarmSettings } from './alarm-settings.ts';

/** At most one alarm in this time, so that a burst of calls is one alarm. */
const QUIET_MS = 3_000;

/** A short tone without a file. */
function ring(): void {
  const audio = new AudioContext();
  const tone = audio.createOscillator();
  const volume = audio.createGain();
  tone.frequency.value = 660;
  volume.gain.setValueAtTime(0.12, audio.currentTime);
  volume.gain.exponentialRampToValueAtTime(0.001, audio.currentTime + 0.25);
  tone.connect(volume).connect(audio.destination);
  tone.start();
  tone.stop(audio.currentTime + 0.25);
  tone.onended = () => void audio.close();
}

/** Tells of new calls: to screen readers always, by sound and desktop notification where they are turned on. */
export function NewCallAlarm() {
  const live = useLiveCalls();
  const { t } = useTranslation();
  const { settings } = useAlarmSettings();
  const [heard, setHeard] = useState('');
  useEffect(() => {
    let quietUntil = 0;
    return live.onNew((call: Call) => {
      const now = Date.now();
      if (now < quietUntil) return;
      quietUntil = now + QUIET_MS;
      const summary = plainVisible(call.summary).slice(0, 200);
      setHeard(t('inbox.newCalls', { summary }));
      if (settings.sound) ring();
      if (settings.notify && document.hidden && Notification.permission === 'granted')
        new Notification(t('call.on', { agent: call.agent, host: call.host }), { body: summary, tag: 'countersign' });
    });
  }, [live, settings, t]);
  return (
    <div className="only-heard" role="status" aria-live="polite">
      {heard}
    </div>
  );
}
