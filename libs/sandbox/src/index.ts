export { BACKENDS, type Backend, type BackendOffer, type BackendWish, chooseBackend } from './backend.ts';
export { BRIDGE, bwrapArgv, type Overlay, type SandboxFacts } from './bwrap-argv.ts';
export { type Diagnosis, diagnose, type HostSigns } from './diagnose.ts';
export { type EnvironmentRequest, PROXY_PORT, sandboxEnvironment } from './environment.ts';
export {
  BRIDGE_FD,
  type CommandLimits,
  type CommandStart,
  guardedCommand,
  HOLD_FD,
  limitedCommand,
  WATCH_FD,
} from './limited-command.ts';
export {
  checkPlaces,
  isInside,
  type PlaceError,
  type Places,
  PROFILES,
  PROTECTED_NAMES,
  type Profile,
  shallowFirst,
  writableRoots,
  writesProject,
} from './places.ts';
export { evaluateSbpl, type SbplUse } from './sbpl-evaluator.ts';
export { readSbpl, type SbplFilter, type SbplRule } from './sbpl-reader.ts';
export { quotePath, type SeatbeltFacts, seatbeltArgv, seatbeltProfile } from './seatbelt.ts';
export { type BpfInstruction, encodeSeccomp, type SocketRule, seccompProgram } from './seccomp.ts';
export { type Architecture, EXAMINED_SYSCALLS, REFUSED_SYSCALLS } from './syscalls.ts';
export { type Wsl2Host, wsl2Argv, wslPath } from './wsl2-argv.ts';
