import { schemaProblems } from '../check-schema.ts';
import { POLICY_SCHEMA } from '../policy-schema.ts';
import type { PolicyLoadError, QueueSource } from '../types.ts';
import { windowProblem } from './queue-time.ts';

const MAX_PEOPLE = 20;

function* meaningProblems(queue: QueueSource): Generator<string> {
  for (const hours of queue.windows ?? []) {
    const problem = windowProblem(hours);
    if (problem !== undefined) yield problem;
  }
  const named = (queue.quorum ?? []).reduce((sum, { count }) => sum + count, 0);
  if (named > MAX_PEOPLE) yield `a quorum names at most ${MAX_PEOPLE} people`;
  const groups = (queue.quorum ?? []).map(({ group }) => group);
  if (new Set(groups).size !== groups.length) yield 'a quorum names each group once';
  if (queue.delegation && queue.approvers === undefined && queue.quorum === undefined)
    yield 'delegation needs groups: without them every approver decides for himself';
}

/** What is wrong with the queues of the managed layer; a set with a wrong queue is refused whole. */
export function queueProblems(queues: unknown): PolicyLoadError[] {
  const schema = POLICY_SCHEMA.properties?.queues;
  if (queues === undefined || schema === undefined) return [];
  const form = schemaProblems(queues, schema, ['queues']).map(({ path, message, suggestion }) => ({
    ...{ layer: 'managed', rule: path.join('.'), message, suggestion },
  }));
  if (form.length > 0) return form;
  return Object.entries(queues as Readonly<Record<string, QueueSource>>).flatMap(([name, queue]) =>
    [...meaningProblems(queue)].map((message) => ({ layer: 'managed', rule: `queues.${name}`, message })),
  );
}
