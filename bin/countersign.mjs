#!/usr/bin/env node
// Runs the command line with the pinned Node.
import { handOver } from './hand-over.mjs';

handOver(process.argv.slice(2));
