/**
 * Told synchronously when a process reaches a named step of its road, before it goes on. Services pass `passEachStep`;
 * crash tests pass a function that ends the process there.
 */
export type AtStep<Step extends string> = (step: Step) => void;

/** Does nothing at any step. */
export const passEachStep = (): void => undefined;
