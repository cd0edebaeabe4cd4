import type { BashRequest } from '../../../apps/sandbox-runner/src/sandbox/execute.ts';
import type { World } from './world.ts';

/** Something that a command tries. */
export type Attempt = {
  readonly name: string;
  /** Shell text; exit 0 says that it went through. */
  readonly text: string;
  /** Says so in the place of the exit status, from what the host holds after the command. */
  readonly went?: (world: World) => boolean;
  /** Why it does not go through without a sandbox either; then it proves less. */
  readonly dull?: string;
};

/** Attempts that one command makes, one after the other, in a world of their own. */
export type Check = {
  readonly id: string;
  /** Where it runs: on the host as it is, or in a network with servers and names of its own. */
  readonly place: 'host' | 'network';
  /** What the sandbox is asked for, besides the project of the world. */
  readonly request: (world: World) => Partial<BashRequest>;
  /** Makes the world ready; what it answers is called at the end. */
  readonly prepare?: (world: World) => Promise<() => void> | (() => void);
  /** Runs beside in the same way, until `beside-end` lies in the project; makes `beside-up` there first. */
  readonly beside?: (world: World) => string;
  readonly attempts: (world: World) => readonly Attempt[];
  /** Must go through in every case, so that a refusal of everything is no answer. */
  readonly works: (world: World) => readonly Attempt[];
};

/** One attempt by name, text and what is special about it. */
export const attempt = (name: string, text: string, rest: Partial<Attempt> = {}): Attempt => ({ name, text, ...rest });

export const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** A Python text that ends with 0 when it reaches its end. */
export const python = (text: string): string => `python3 -c ${quoted(text)}`;

/** Calls the kernel without the C library in between; ends with 0 when the answer is no error. */
export const systemCall = (number: number, ...args: readonly (number | string)[]): string =>
  python(`import ctypes, sys
r = ctypes.CDLL(None, use_errno=True).syscall(${[number, ...args].join(', ')})
sys.exit(0 if r >= 0 else 1)`);
