import { readFileSync } from 'node:fs';
import path from 'node:path';
import { FaultError } from '@countersign/kernel';
import { z } from 'zod';
import type { DataFolder } from './data-folder.ts';
import { writePrivateJson } from './private-file.ts';

const endpointsSchema = z.strictObject({ http: z.string(), natsUrl: z.string(), rootKey: z.string() });

/** Where the running installation listens. */
export type Endpoints = z.infer<typeof endpointsSchema>;

const file = (data: DataFolder): string => path.join(data.private, 'run/endpoints.json');

export const writeEndpoints = (data: DataFolder, endpoints: Endpoints): void => writePrivateJson(file(data), endpoints);

/** Throws a FaultError when nothing was started in this data folder. */
export function readEndpoints(data: DataFolder): Endpoints {
  try {
    return endpointsSchema.parse(JSON.parse(readFileSync(file(data), 'utf8')));
  } catch {
    throw new FaultError('no installation was started here; run `npm start` first, or name its folder with `--data`', {
      code: 'countersign.cli.not_started',
    });
  }
}
