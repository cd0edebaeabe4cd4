import { forEachChild, type ParsedScript, type SyntaxNode } from 'unbash';

/** Deeper trees are over the nesting limit anyway, which asks. */
const MAX_DEPTH = 400;

const oddBackslashes = (text: string): boolean => /(?<!\\)(\\\\)*\\$/.test(text);
const quotesOf = (text: string, quote: string): number => text.replaceAll(/\\./gs, '').split(quote).length - 1;

function openIn(node: SyntaxNode): string | undefined {
  switch (node.type) {
    case 'Word':
      if (oddBackslashes(node.text)) return 'a backslash at the end';
      return node.parts === undefined && /(?<!\\)\$\[/.test(node.text) && !/['"]/.test(node.text)
        ? 'an open `$[`'
        : undefined;
    case 'Pipeline':
      return node.commands.length === 0 ? 'a pipeline without a command' : undefined;
    case 'HereDoc': {
      const text = node.delimiter?.text ?? '';
      const open = ["'", '"', '`'].some((quote) => quotesOf(text, quote) % 2 === 1) || /\$[({[]/.test(text);
      return open ? 'an open here-document delimiter' : undefined;
    }
    default:
      return undefined;
  }
}

/** Whether a parenthesis stands between the words of a command and belongs to none of them. */
function hasLooseParenthesis(node: Extract<SyntaxNode, { type: 'Command' }>, text: string): boolean {
  if (!/[()]/.test(text)) return false;
  const parts = [...(node.name ? [node.name] : []), ...node.prefix, ...node.suffix].sort((a, b) => a.pos - b.pos);
  let at = node.pos;
  for (const { pos, end } of parts) {
    if (/[()]/.test(text.slice(at, pos))) return true;
    at = Math.max(at, end);
  }
  return false;
}

/** The first thing in a tree that the parser takes and bash would not; undefined if there is none. */
function openBelow(node: SyntaxNode, text: string | undefined, depth: number): string | undefined {
  if (depth > MAX_DEPTH) return undefined;
  let found = openIn(node);
  if (node.type === 'Command' && text !== undefined && hasLooseParenthesis(node, text)) found ??= 'an open parenthesis';
  // Positions below a word count from elsewhere.
  const below = node.type === 'Word' ? undefined : text;
  if (node.type === 'Word')
    for (const part of node.parts ?? [])
      if (part.type === 'CommandExpansion' && part.text.startsWith('${') && !part.text.endsWith('}'))
        found ??= 'an open `${`';
  forEachChild(node, (child) => {
    found ??= openBelow(child, below, depth + 1);
  });
  return found;
}

/** Characters between and behind the statements of a script that belong to none of them. */
function leftOver(script: ParsedScript, text: string): boolean {
  if (!/[()]/.test(text)) return false;
  let at = 0;
  let rest = '';
  for (const { pos, end } of script.commands) {
    rest += `${text.slice(at, pos)}\n`;
    at = Math.max(at, end);
  }
  rest += text.slice(at);
  return /[()]/.test(rest.replaceAll(/(?<![^\s;&])#[^\n]*/g, ''));
}

/**
 * What makes a text unreadable although the parser found no error in it.
 * INVARIANT: only ever adds an ask; it is here because the parser drops some open constructs that bash refuses.
 */
export function unclosed(script: ParsedScript, text: string): string | undefined {
  for (const s of script.commands) {
    const found = openBelow(s, text, 0);
    if (found !== undefined) return found;
  }
  // The bodies of here-documents lie between statements.
  return !/<<-?[^<]/.test(text) && leftOver(script, text) ? 'an open parenthesis' : undefined;
}
