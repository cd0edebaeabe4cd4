export { type CommandPattern, compileCommandPattern } from './command-pattern.ts';
export {
  canonicalHost,
  carriedAddress,
  compileHostPattern,
  type HostPattern,
  type HostTarget,
  isPrivateHost,
  parseTarget,
} from './host.ts';
export { compilePathGlob, isInside, normalisePath, type PathBase, type PathGlob } from './path-glob.ts';
export { PathIndex } from './path-index.ts';
export { PrefixIndex } from './prefix-index.ts';
export { findSuspicious } from './suspicious.ts';
export { fromWindowsPath } from './windows-path.ts';
