import i18next, { type i18n } from 'i18next';
import { initReactI18next } from 'react-i18next';
import type { en } from './en.ts';

/** Languages of the desk. */
export const LANGUAGES = ['en', 'zh-CN'] as const;
export type Language = (typeof LANGUAGES)[number];

const KEY = 'countersign-language';

declare module 'i18next' {
  interface CustomTypeOptions {
    defaultNS: 'desk';
    resources: { desk: typeof en };
    keySeparator: false;
    nsSeparator: false;
    returnNull: false;
  }
}

const load = async (language: Language): Promise<object> =>
  language === 'en' ? (await import('./en.ts')).en : (await import('./zh.ts')).zh;

function preferred(): Language {
  const kept = localStorage.getItem(KEY) ?? navigator.language;
  return kept.startsWith('zh') ? 'zh-CN' : 'en';
}

/** Shows the desk in another language from now on. */
export async function chooseLanguage(words: i18n, language: Language): Promise<void> {
  if (!words.hasResourceBundle(language, 'desk')) words.addResourceBundle(language, 'desk', await load(language));
  await words.changeLanguage(language);
  localStorage.setItem(KEY, language);
  document.documentElement.lang = language;
}

/** Starts with the kept or the browser's language; only that one is loaded. */
export async function startWords(): Promise<i18n> {
  const language = preferred();
  const words = i18next.createInstance();
  await words.use(initReactI18next).init({
    lng: language,
    fallbackLng: false,
    ns: ['desk'],
    defaultNS: 'desk',
    keySeparator: false,
    nsSeparator: false,
    // React escapes what it shows.
    interpolation: { escapeValue: false },
    resources: { [language]: { desk: await load(language) } },
  });
  document.documentElement.lang = language;
  return words;
}
