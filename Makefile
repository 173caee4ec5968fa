# Needs: Go (see go.mod), a Docker engine, bash. Everything else is built by these targets.

SHELL := /bin/bash
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
BIN := bin
PROGRAMS := cke ckecli cke-lab

.PHONY: all build demo demo-down test check unit nodes bench clean

all: build

build:
	@mkdir -p $(BIN)
	@echo "Build $(PROGRAMS)" >&2
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ $(addprefix ./cmd/,$(PROGRAMS))

# Three real nodes, a cke daemon, one cluster: the main job from nothing.
demo:
	@mtest/demo.sh up

demo-down:
	@mtest/demo.sh down

# All that .ci/run runs: checks, tests with the race detector, tests on real nodes.
test: check unit nodes

check:
	@mtest/need.sh
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "Not gofmt-clean:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools.mod staticcheck ./...

unit:
	$(GO) test -race -short ./...

# Tests on real nodes: containers with their own sshd and Docker engine.
nodes:
	$(GO) test -timeout 40m -count=1 ./etcdnode ./mtest/...

bench:
	@mtest/need.sh
	@$(GO) run ./bench

clean:
	rm -rf $(BIN)
