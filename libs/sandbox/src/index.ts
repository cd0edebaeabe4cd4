export { bwrapArgv, limitedCommand, type Overlay, type SandboxFacts } from './bwrap-argv.ts';
export { sandboxEnvironment } from './environment.ts';
export {
  checkPlaces,
  isInside,
  type PlaceError,
  type Places,
  PROTECTED_NAMES,
  type Profile,
  shallowFirst,
  writableRoots,
} from './places.ts';
export { type BpfInstruction, encodeSeccomp, seccompProgram } from './seccomp.ts';
export { type Architecture, EXAMINED_SYSCALLS, REFUSED_SYSCALLS } from './syscalls.ts';
