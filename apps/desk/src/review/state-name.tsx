import { useTranslation } from 'react-i18next';

/** States of a call in words; an unknown one is shown as it is. */
export function useStateName(): (state: string) => string {
  const { t, i18n } = useTranslation();
  return (state) => (i18n.exists(`state.${state}`) ? t(`state.${state}` as 'state.done') : state);
}

/** A state of a call in words. */
export function StateName({ state }: { state: string }) {
  return useStateName()(state);
}
