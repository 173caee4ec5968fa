#!/usr/bin/env bash
# Says in one line each what is missing on this machine.
set -u
missing=0
if ! command -v go >/dev/null; then
  echo "Go is not installed: install the version that go.mod names, from https://go.dev/dl" >&2
  missing=1
fi
if ! command -v docker >/dev/null; then
  echo "The docker command is not installed: install Docker Engine 20.10 or newer" >&2
  missing=1
elif ! docker version >/dev/null 2>&1; then
  echo "Docker does not answer: start it (systemctl start docker), or let your user use it (group docker)" >&2
  missing=1
fi
exit $missing
