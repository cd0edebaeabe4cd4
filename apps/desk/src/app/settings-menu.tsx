import { Button, type MantineColorScheme, Menu, useMantineColorScheme } from '@mantine/core';
import { useTranslation } from 'react-i18next';
import { chooseLanguage, LANGUAGES, type Language } from '../words/start-words.ts';
import { useAlarmSettings } from './alarm-settings.ts';
import { useMe } from './me-context.tsx';

const NAMES = { en: 'English', 'zh-CN': '简体中文' } as const;
const THEMES = ['auto', 'light', 'dark'] as const;

function AlarmItems() {
  const { t } = useTranslation();
  const { settings, set } = useAlarmSettings();
  const blocked = 'Notification' in window && Notification.permission === 'denied';
  const setNotify = async () => {
    const wanted = !settings.notify;
    if (wanted && (await Notification.requestPermission()) !== 'granted') return;
    set({ ...settings, notify: wanted });
  };
  return (
    <>
      <Menu.CheckboxItem checked={settings.sound} onChange={(sound) => set({ ...settings, sound })}>
        {t('menu.sound')}
      </Menu.CheckboxItem>
      {'Notification' in window && (
        <Menu.CheckboxItem checked={settings.notify} disabled={blocked} onChange={() => void setNotify()}>
          {blocked ? t('menu.notifyBlocked') : t('menu.notify')}
        </Menu.CheckboxItem>
      )}
    </>
  );
}

/** Theme, language, alarms, and who is signed in. */
export function SettingsMenu() {
  const { t, i18n } = useTranslation();
  // Without `keepTransitions` a style element would be written, which the content security policy stops.
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const me = useMe();
  return (
    <Menu position="top-start" closeOnItemClick={false} transitionProps={{ duration: 0 }} width={240}>
      <Menu.Target>
        <Button variant="default" size="compact-sm">
          {t('menu.settings')}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{t('menu.person', { name: `${me.name} (${me.roles.join(', ')})` })}</Menu.Label>
        <Menu.Label>{t('menu.theme')}</Menu.Label>
        <Menu.RadioGroup value={colorScheme} onChange={(theme) => setColorScheme(theme as MantineColorScheme)}>
          {THEMES.map((theme) => (
            <Menu.RadioItem key={theme} value={theme}>
              {t(`menu.theme.${theme}`)}
            </Menu.RadioItem>
          ))}
        </Menu.RadioGroup>
        <Menu.Label>{t('menu.language')}</Menu.Label>
        <Menu.RadioGroup value={i18n.language} onChange={(language) => void chooseLanguage(i18n, language as Language)}>
          {LANGUAGES.map((language) => (
            <Menu.RadioItem key={language} value={language} lang={language}>
              {NAMES[language]}
            </Menu.RadioItem>
          ))}
        </Menu.RadioGroup>
        <Menu.Divider />
        <AlarmItems />
      </Menu.Dropdown>
    </Menu>
  );
}
