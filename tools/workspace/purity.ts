import { isPure } from './import-law.ts';
import { nodesOf, type SourceFile, type SyntaxNode, type Violation, violationAt } from './source-file.ts';
import type { WorkspaceTree } from './tree.ts';

/** Names of effects. They may not be used for anything else in a pure library either, so that none can hide. */
const EFFECTS = new Set([
  ...['process', 'Buffer', 'require', 'globalThis', 'global', 'window', 'document', 'navigator', 'console'],
  ...['performance', 'crypto', 'fetch', 'XMLHttpRequest', 'WebSocket', 'Promise', 'eval', 'Function'],
  ...['setTimeout', 'setInterval', 'setImmediate', 'clearTimeout', 'clearInterval', 'clearImmediate'],
  ...['queueMicrotask', 'requestAnimationFrame'],
]);

const isNamed = (value: unknown, name: string): boolean =>
  (value as SyntaxNode | undefined)?.type === 'Identifier' && (value as SyntaxNode).name === name;

/** A name after a dot or before a colon is no use of the global. */
function isPlainProperty(parent: SyntaxNode | undefined, key: string): boolean {
  if (!parent || parent.computed === true) return false;
  if (key === 'property') return parent.type === 'MemberExpression';
  return key === 'key';
}

function effectOf(node: SyntaxNode, parent: SyntaxNode | undefined, key: string): string | undefined {
  if (node.async === true || node.type === 'AwaitExpression' || node.await === true) return 'async code';
  if (node.type === 'MetaProperty' && isNamed(node.meta, 'import')) return '`import.meta`';
  if (node.type === 'MemberExpression') {
    const member = (node.property as SyntaxNode).name ?? (node.property as SyntaxNode).value;
    if (isNamed(node.object, 'Math') && member === 'random') return '`Math.random`';
    if (isNamed(node.object, 'Date') && member === 'now') return '`Date.now`';
  }
  if (node.type === 'NewExpression' && isNamed(node.callee, 'Date')) {
    return (node.arguments as readonly unknown[]).length === 0 ? '`new Date()`' : undefined;
  }
  if (node.type === 'CallExpression' && isNamed(node.callee, 'Date')) return '`Date()`';
  const name = node.name;
  const used = node.type === 'Identifier' && typeof name === 'string' && EFFECTS.has(name);
  return used && !isPlainProperty(parent, key) ? `\`${name}\`` : undefined;
}

const effectsIn = (file: SourceFile): Violation[] =>
  [...nodesOf(file.program)].flatMap(({ node, parent, key }) => {
    const effect = effectOf(node, parent, key);
    return effect === undefined
      ? []
      : [violationAt(file, node.start, `a pure library has no ${effect}; let the caller pass the value in`)];
  });

/** Clocks, randomness, timers, processes, globals and async code in the pure libraries; their tests may have them. */
export const purityViolations = (tree: WorkspaceTree): Violation[] =>
  tree.packages.filter(isPure).flatMap(({ files }) => files.filter(({ isTest }) => !isTest).flatMap(effectsIn));
