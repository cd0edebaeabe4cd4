import { nearest } from './nearest.ts';
import { POLICY_SCHEMA, type Schema } from './policy-schema.ts';

export interface SchemaProblem {
  readonly path: readonly (string | number)[];
  readonly message: string;
  readonly suggestion: string;
}

const kindOf = (value: unknown): string =>
  value === null ? 'nothing' : Array.isArray(value) ? 'a list' : typeof value === 'object' ? 'a map' : typeof value;

const WANTED: Readonly<Record<string, string>> = {
  object: 'a map',
  array: 'a list',
  string: 'a text',
  boolean: '`true` or `false`',
  integer: 'a whole number',
  number: 'a number',
};

function fitsType(value: unknown, type: Schema['type']): boolean {
  switch (type) {
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value);
    case 'array':
      return Array.isArray(value);
    case 'integer':
      return Number.isSafeInteger(value);
    default:
      return type === undefined || typeof value === type;
  }
}

type Path = readonly (string | number)[];

function mapProblems(value: Readonly<Record<string, unknown>>, schema: Schema, path: Path): SchemaProblem[] {
  const out: SchemaProblem[] = [];
  const known = schema.properties ?? {};
  for (const key of schema.required ?? [])
    if (!Object.hasOwn(value, key)) out.push({ path, message: `\`${key}\` is missing`, suggestion: `add \`${key}\`` });
  for (const [key, item] of Object.entries(value)) {
    const inner = Object.hasOwn(known, key) ? known[key] : schema.additionalProperties;
    if (inner === false) {
      const meant = nearest(key, Object.keys(known));
      const suggestion = meant === undefined ? `use one of ${Object.keys(known).join(', ')}` : `write \`${meant}\``;
      out.push({ path: [...path, key], message: `\`${key.slice(0, 100)}\` is not known here`, suggestion });
    } else if (inner !== undefined) out.push(...schemaProblems(item, inner, [...path, key]));
  }
  return out;
}

function valueProblem(value: unknown, schema: Schema): { message: string; suggestion: string } | undefined {
  if (typeof value === 'string') {
    if (schema.enum !== undefined && !schema.enum.includes(value)) {
      const meant = nearest(value, schema.enum);
      return {
        message: `\`${value.slice(0, 100)}\` is not one of ${schema.enum.join(', ')}`,
        suggestion: `write ${meant === undefined ? `one of ${schema.enum.join(', ')}` : `\`${meant}\``}`,
      };
    }
    if (value.length < (schema.minLength ?? 0))
      return { message: 'is empty', suggestion: 'write a value or remove the key' };
    if (value.length > (schema.maxLength ?? value.length))
      return { message: `is longer than ${schema.maxLength} characters`, suggestion: 'shorten it' };
  }
  if (typeof value === 'number' && !(value >= (schema.minimum ?? value) && value <= (schema.maximum ?? value)))
    return {
      message: `${value} is out of range`,
      suggestion: `write ${WANTED[schema.type ?? 'integer']} from ${schema.minimum} to ${schema.maximum}`,
    };
  return undefined;
}

/** Where a value does not fit the policy schema. Empty when it fits. */
export function schemaProblems(value: unknown, given: Schema = POLICY_SCHEMA, path: Path = []): SchemaProblem[] {
  const schema = given.$ref === undefined ? given : (POLICY_SCHEMA.$defs[given.$ref.slice('#/$defs/'.length)] ?? given);
  if (schema.anyOf !== undefined) {
    const fitting = schema.anyOf.find((s) => fitsType(value, s.type));
    if (fitting !== undefined) return schemaProblems(value, fitting, path);
    const wanted = schema.anyOf.map((s) => WANTED[s.type ?? 'object']).join(' or ');
    return [{ path, message: `is ${kindOf(value)}`, suggestion: `write ${wanted}` }];
  }
  if (!fitsType(value, schema.type))
    return [{ path, message: `is ${kindOf(value)}`, suggestion: `write ${WANTED[schema.type ?? 'object']}` }];
  const problem = valueProblem(value, schema);
  if (problem !== undefined) return [{ path, ...problem }];
  if (Array.isArray(value)) {
    if (value.length > (schema.maxItems ?? value.length))
      return [{ path, message: `holds more than ${schema.maxItems} items`, suggestion: 'shorten the list' }];
    return value.flatMap((item, i) => (schema.items ? schemaProblems(item, schema.items, [...path, i]) : []));
  }
  return schema.type === 'object' ? mapProblems(value as Record<string, unknown>, schema, path) : [];
}
