#!/usr/bin/env bash
# Installs Chromium, which the tests of the status page drive, where it is missing.
set -eu
command -v chromium >/dev/null || command -v google-chrome >/dev/null && exit
echo "Install Chromium, for the tests of the status page" >&2
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null
else
  echo "Chromium is not installed: install the package chromium" >&2
  exit 1
fi
