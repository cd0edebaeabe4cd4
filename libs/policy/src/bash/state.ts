import { forEachChild, type SyntaxNode } from 'unbash';
import { type Resolved, type Scope, UNKNOWN } from './words.ts';

export const cloneScope = (scope: Scope): Scope => ({
  vars: new Map(scope.vars),
  functions: new Map(scope.functions),
  home: scope.home,
  cwd: scope.cwd,
});

/** Makes `into` the state of somebody who does not know whether it or `other` came true. */
export function mergeScope(into: Scope, other: Scope): void {
  if (into.cwd !== other.cwd) into.cwd = undefined;
  for (const [name, value] of other.vars) if (into.vars.get(name) !== value) into.vars.set(name, UNKNOWN);
  for (const name of into.vars.keys()) if (!other.vars.has(name)) into.vars.set(name, UNKNOWN);
}

/** Makes unknown whatever a part of a script may change. */
export function taint(node: SyntaxNode, scope: Scope): void {
  if (node.type === 'Assignment') scope.vars.set(node.name, UNKNOWN);
  if (node.type === 'For' || node.type === 'Select') scope.vars.set(node.name.value, UNKNOWN);
  if (node.type === 'Command') {
    const name = node.name?.value;
    if (name === 'cd' || name === 'pushd' || name === 'popd') scope.cwd = undefined;
    if (name === 'read' || name === 'printf' || name === 'mapfile' || name === 'unset' || name === 'getopts')
      for (const a of node.args) if (a.type === 'Word') scope.vars.set(a.value, UNKNOWN);
  }
  forEachChild(node, (child) => taint(child, scope));
}

/** Whether a part of a list leaves the script, so that nothing behind it sees its state. */
export function leaves(node: SyntaxNode): boolean {
  if (node.type === 'Pipeline') return node.commands.length === 1 && node.commands.every(leaves);
  if (node.type === 'BraceGroup') return node.body.commands.some((s) => leaves(s.command));
  return node.type === 'Command' && /^(exit|return|break|continue|exec)$/.test(node.name?.value ?? '');
}

/** The folder that a word names, seen from another. */
export function movedTo(cwd: string | undefined, word: Resolved): string | undefined {
  if (word.unresolved || word.glob || word.text === '-') return undefined;
  if (word.text.startsWith('/')) return word.text;
  return cwd === undefined ? undefined : `${cwd}/${word.text}`;
}

/** What a simple command changes for those behind it. */
export function updateState(words: readonly Resolved[], scope: Scope): void {
  let at = 0;
  while (words[at]?.text === 'command' || words[at]?.text === 'builtin') at++;
  const name = words[at]?.text;
  if (name === 'popd') scope.cwd = undefined;
  if (/^(read|mapfile|readarray|unset|getopts|printf|let)$/.test(name ?? ''))
    for (const w of words.slice(at + 1)) if (/^\w+$/.test(w.text)) scope.vars.set(w.text, UNKNOWN);
  if (name === 'eval' || name === 'source' || name === '.') {
    scope.cwd = undefined;
    for (const key of [...scope.vars.keys(), 'HOME', 'TMPDIR']) scope.vars.set(key, UNKNOWN);
  }
  if (name !== 'cd' && name !== 'pushd') return;
  const to = words.slice(at + 1).filter((w) => !/^-[LPe@-]+$/.test(w.text));
  const first = to[0];
  if (first === undefined) scope.cwd = name === 'cd' ? scope.home : undefined;
  else scope.cwd = to.length > 1 || /^[-+]\d+$/.test(first.text) ? undefined : movedTo(scope.cwd, first);
}
