import { createContext, useContext } from 'react';
import type { Me } from '../api/me.ts';

const Context = createContext<Me | undefined>(undefined);
export const MeProvider = Context;

/** The signed-in person. */
export function useMe(): Me {
  const me = useContext(Context);
  if (!me) throw new Error('nobody is signed in here');
  return me;
}
