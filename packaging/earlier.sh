#!/usr/bin/env bash
# Prints the commit whose package is upgraded in tests: the last one before the newest change of what packages install. The
# newest commit is often one of tests or pages, so the one before it would have the same programs.
set -euo pipefail
cd "$(dirname "$0")/.."
newest=$(git log -1 --no-merges --format=%H -- '*.go' '*.html' '*.css' '*.js' go.mod 'packaging/cke.*' packaging/nfpm.yaml \
  ':(exclude)*_test.go' ':(exclude)*_test.js' ':(exclude)mtest/*' ':(exclude)bench/*' ':(exclude)cmd/cke-lab/*' ':(exclude)sim/*')
git rev-parse "$newest~1"
