import type { TimeWindow } from '../types.ts';

const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;
const CLOCK = /^([01]\d|2[0-3]):([0-5]\d)$/;

/** Minutes after midnight of `HH:MM`; undefined for anything else. */
function minutesOf(text: string): number | undefined {
  const [, hours, minutes] = CLOCK.exec(text) ?? [];
  return hours === undefined ? undefined : Number(hours) * 60 + Number(minutes);
}

/** Weekday and minutes after midnight at `ms` in a zone; undefined for an unknown zone. */
function localTime(ms: number, timeZone: string): { day: string; minutes: number } | undefined {
  try {
    const format = new Intl.DateTimeFormat('en-GB', {
      timeZone,
      weekday: 'short',
      hour: '2-digit',
      minute: '2-digit',
      hourCycle: 'h23',
    });
    const parts = new Map(format.formatToParts(new Date(ms)).map(({ type, value }) => [type, value]));
    const day = (parts.get('weekday') ?? '').toLowerCase();
    return { day, minutes: Number(parts.get('hour')) * 60 + Number(parts.get('minute')) };
  } catch {
    return undefined;
  }
}

/** Why a hours cannot be kept; undefined when it can. */
export function windowProblem(hours: TimeWindow): string | undefined {
  if (localTime(0, hours.timeZone) === undefined) return `time zone \`${hours.timeZone.slice(0, 60)}\` is not known`;
  const [from, to] = [minutesOf(hours.from), minutesOf(hours.to)];
  if (from === undefined || to === undefined) return 'a hours names its times as `HH:MM`';
  return from === to ? 'a hours that begins when it ends is never or always open; say which' : undefined;
}

/** True when `ms` lies in the hours. One whose end is before its beginning runs past midnight, and belongs to the day it began on. */
export function isInWindow(hours: TimeWindow, ms: number): boolean {
  const now = localTime(ms, hours.timeZone);
  const [from, to] = [minutesOf(hours.from), minutesOf(hours.to)];
  if (now === undefined || from === undefined || to === undefined || from === to) return false;
  const days = (hours.days ?? DAYS) as readonly string[];
  if (from < to) return days.includes(now.day) && now.minutes >= from && now.minutes < to;
  if (now.minutes >= from) return days.includes(now.day);
  const at = (DAYS as readonly string[]).indexOf(now.day);
  return now.minutes < to && days.includes(DAYS[(at + 6) % 7] ?? '');
}
