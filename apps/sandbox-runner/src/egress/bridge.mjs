// Runs inside the sandbox, before the command: opens a port on its loopback, hands the port to the runner, and ends.
import { createServer } from 'node:net';

const PORT = 3128;
const server = createServer();
server.once('error', () => process.exit(1));
server.listen({ host: '127.0.0.1', port: PORT, backlog: 128 }, () => {
  process.send('open', server, (error) => error && process.exit(1));
});
process.once('message', () => process.exit(0));
process.once('disconnect', () => process.exit(1));
