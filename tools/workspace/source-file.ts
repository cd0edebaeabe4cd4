import { parseSync } from 'vite';

/** A node of the syntax tree (ESTree with TypeScript nodes). */
export type SyntaxNode = { readonly type: string; readonly start: number; readonly [key: string]: unknown };

/** One parsed source file. */
export type SourceFile = {
  /** Relative to the root, with `/`. */
  readonly path: string;
  readonly text: string;
  readonly isTest: boolean;
  readonly lines: number;
  readonly program: SyntaxNode;
  readonly comments: readonly { readonly text: string; readonly start: number }[];
  /** What the parser refuses; empty when the file was understood. */
  readonly parseErrors: readonly string[];
};

/** What a check found, as `path:line`. */
export type Violation = { readonly path: string; readonly line: number; readonly message: string };

/** Parses one file. Never throws for bad source: see `parseErrors`. */
export function sourceFile(path: string, text: string): SourceFile {
  const parsed = parseSync(path, text);
  return {
    path,
    text,
    isTest: /\.test\.tsx?$/.test(path) || /\/test\//.test(path),
    lines: text === '' ? 0 : text.replace(/\n$/, '').split('\n').length,
    program: parsed.program as unknown as SyntaxNode,
    comments: parsed.comments.map(({ value, start }) => ({ text: value, start })),
    parseErrors: parsed.errors.map(({ message }) => message),
  };
}

/** A violation at an offset of the file. */
export function violationAt(file: SourceFile, offset: number, message: string): Violation {
  return { path: file.path, line: file.text.slice(0, offset).split('\n').length, message };
}

const isNode = (value: unknown): value is SyntaxNode =>
  typeof value === 'object' && value !== null && typeof (value as { type?: unknown }).type === 'string';

/** Every node of the tree, parents first, with the parent and the parent's key that holds it. */
export function* nodesOf(
  node: SyntaxNode,
  parent?: SyntaxNode,
  key = '',
): Generator<{ readonly node: SyntaxNode; readonly parent: SyntaxNode | undefined; readonly key: string }> {
  yield { node, parent, key };
  for (const [name, value] of Object.entries(node)) {
    for (const child of Array.isArray(value) ? value : [value]) {
      if (isNode(child)) yield* nodesOf(child, node, name);
    }
  }
}

const IMPORTING = new Set([
  'ImportDeclaration',
  'ExportAllDeclaration',
  'ExportNamedDeclaration',
  'ImportExpression',
  'TSImportType',
  'TSExternalModuleReference',
]);

/** Every module the file names: static, re-exported, dynamic, in types. `undefined` is a computed specifier. */
export function importsOf(
  file: SourceFile,
): readonly { readonly specifier: string | undefined; readonly start: number }[] {
  return [...nodesOf(file.program)].flatMap(({ node }) => {
    if (!IMPORTING.has(node.type)) return [];
    const source = node.source ?? node.expression;
    if (!isNode(source)) return [];
    const value = source.value;
    return [{ specifier: typeof value === 'string' ? value : undefined, start: node.start }];
  });
}
