#!/bin/sh
# Makes vectors/merkle/tlog-tiles.json again, or checks an export: make.sh [check DIR NAME KEYHEX].
# Needs a Go toolchain and golang.org/x/mod (Debian: golang-go golang-golang-x-mod-dev). Not part of CI.
set -eu
folder=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE="$work" go build -o "$work/tool" "$folder/main.go"
if [ "${1:-make}" = check ]; then "$work/tool" "$@"; else "$work/tool" make "$folder/../../vectors/merkle/tlog-tiles.json"; fi
