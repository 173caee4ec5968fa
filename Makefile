# Needs: Go (see go.mod), a Docker engine, bash. Everything else is built by these targets.

SHELL := /bin/bash
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
# Google's storage client can speak gRPC, which cke does not use; what it brings costs every start 10 ms and 13 MB.
TAGS := disable_grpc_modules
BIN := bin
# Programs and tests are built alike, as programs are released: so each package is compiled once for both.
export CGO_ENABLED := 0
export GOFLAGS := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath
PROGRAMS := cke ckecli cke-lab

.PHONY: all build demo demo-down test check unit nodes stories matrix month nodes-race bench clean

all: build

build:
	@mkdir -p $(BIN)
	@echo "Build $(PROGRAMS)" >&2
	@$(GO) build -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $(BIN)/ $(addprefix ./cmd/,$(PROGRAMS))

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
	CGO_ENABLED=1 $(GO) test -race -short ./...
	$(GO) test -short ./sim

# The stories of mtest run last and alone: what they wait for has limits, and they fill the machine by themselves.
# Tests on real nodes: containers with their own sshd and Docker engine. Backups with etcd of every minor, etcdutl, a real S3 server.
nodes:
	CKE_NEED_PROGRAMS=1 $(GO) test -timeout 40m -count=1 -run '^Test(Machine|Etcd|Observer)_' ./etcdnode
	CKE_NEED_PROGRAMS=1 $(GO) test -timeout 40m -count=1 ./backup/... ./mtest/lab ./mtest/rig
	CKE_NEED_PROGRAMS=1 $(GO) test -timeout 40m -count=1 ./mtest

# The stories that `make nodes` has, and the others that take longer: half an hour.
stories:
	CKE_NEED_PROGRAMS=1 $(GO) test -timeout 80m -count=1 ./mtest -stories

# Every story on real nodes: every change, fault and crash under a load whose history is checked, and what else is rare.
matrix:
	$(GO) test -timeout 85m -count=1 -v ./mtest -run TestLab -matrix

# What a month does to a cluster and its daemon, played in an hour on real nodes: nothing may grow that has no bound.
month:
	$(GO) test -timeout 100m -count=1 -v ./mtest -run TestLabMonth -month 60m

# The stories with programs that tell data races, and are slow.
nodes-race:
	CKE_RACE=1 CGO_ENABLED=1 $(GO) test -timeout 40m -count=1 ./mtest

bench:
	@mtest/need.sh
	@$(GO) run ./bench

clean:
	rm -rf $(BIN)
