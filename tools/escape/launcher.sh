#!/bin/sh
# Launcher of the suite: passes its last argument, a shell command, to `countersign sandbox exec`.
here=$(cd "$(dirname "$0")/../.." && pwd) || exit 2
exec "$here/node_modules/.bin/node" "$here/apps/sandbox-runner/src/sandbox-command.ts" exec --profile workspace-write -- /bin/sh -c "$1"
