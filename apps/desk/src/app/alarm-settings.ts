import { useLocalStorage } from '@mantine/hooks';

/** How a person wants to be told of new calls. */
export type AlarmSettings = { readonly sound: boolean; readonly notify: boolean };

/** Kept in this browser; both are off until somebody turns them on. */
export function useAlarmSettings() {
  const [settings, set] = useLocalStorage<AlarmSettings>({
    key: 'countersign-alarms',
    defaultValue: { sound: false, notify: false },
    getInitialValueInEffect: false,
  });
  return { settings, set };
}
