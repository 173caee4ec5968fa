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
PROGRAMS := cke ckecli cke-probe cke-lab
# Packages whose tests need neither a store nor nodes.
PURE := . ./clusterfile ./internal/... ./monitoring ./op ./pki ./plan ./preflight/... ./quorum ./server/... ./ui
# gotest prints what `go test` prints, and notes in $(TIMES), where that is set, how long each test took.
GOTEST := .cache/gotest
RUN = $(GOTEST) -times '$(TIMES)' $(GO) test -json
# `make check` vets the same files.
NOVET := -vet=off
# Tests that wait are marked as parallel: more of them than there are cores run at once.
PARALLEL := -parallel 4

.PHONY: all help build demo gameday demo-down quick test check unit backups inventory inventory-live apiserver alerts alerts-live page page-live nodes stories matrix month nodes-race bench packages packages-test clean gotest unit-sim-1 unit-sim-2 backups-race backups-whole

all: build

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: ## build cke, ckecli, cke-probe and cke-lab into bin/
	@mkdir -p $(BIN)
	@echo "Build $(PROGRAMS)" >&2
	@$(GO) build -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $(BIN)/ $(addprefix ./cmd/,$(PROGRAMS))

# Three real nodes, a cke daemon, one cluster: the main job from nothing.
demo: ## start a lab of three nodes, a daemon and a cluster
	@mtest/demo.sh up

# ARGS are those of cke-lab gameday, as ARGS='--seed 42'.
gameday: ## break the cluster of `make demo` under load for three minutes, with a verdict
	@mtest/demo.sh gameday $(ARGS)

demo-down: ## remove all that `make demo` made
	@mtest/demo.sh down

# What can be known in two minutes: no store, no etcd, no node, no race detector, and few random schedules.
quick: gotest ## vet, tests of pure packages, 400 simulated schedules: two minutes
	$(GO) vet ./...
	$(RUN) -short $(NOVET) $(PURE)
	$(RUN) -short $(NOVET) -run '^Test(Cluster_KeepsItsPromisesInRandomSchedules$$|Found_|Left_)' ./sim -schedules=400
	$(RUN) -short $(NOVET) ./cmd/ckecli -no-store

# All that .ci/run runs. Each test runs once, with the race detector, and with real programs where it can use them, except:
# - ./sim, ./plan and ./backup mostly compute. They run without it, and a part runs with it as well: the random schedules
#   and the real loop of ./sim, and the tests of ./backup in which several goroutines read or write.
# - Tests of texts, and on real nodes, run without it: they start no goroutine, or use other programs.
test: ## all checks and tests (check, unit, backups, nodes), and the ten slowest tests
	@rm -f .cache/times
	@code=0; $(MAKE) TIMES=.cache/times check unit backups nodes || code=$$?; \
	if test -f .cache/times; then $(GOTEST) -times .cache/times -slowest 10; fi; exit $$code

gotest:
	@$(GO) build -o $(GOTEST) ./internal/gotest

check: ## gofmt, vet, staticcheck
	@mtest/need.sh
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "Not gofmt-clean:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools.mod staticcheck ./...

# SHARED are the tests of ./backup whose subject is read or written by several goroutines.
SHARED := ^Test(Compact|Copy|Dir|Drill|Find|Hold|Import|Links|Lock|Marks|PutFile|Scratch)
# WHOLE are tests that mostly compute: the race detector gets a part of them.
WHOLE := ABoundOnFaults
# The root's tests read texts. Of the backups only ./backup is here: `make backups` runs the others.
unit: gotest ## unit tests and simulations with the race detector, simulations and tests of texts without it
	CGO_ENABLED=1 $(RUN) -race -short $(NOVET) $(PARALLEL) $$($(GO) list ./... | grep -vE '^cke(/sim|/plan|/backup(/.*)?)?$$')
	CGO_ENABLED=1 $(RUN) -race -short $(NOVET) -run '^Test(Cluster|Loop)_' ./sim
	CGO_ENABLED=1 $(RUN) -race -short $(NOVET) -run '$(SHARED)' ./backup
	$(RUN) -short $(NOVET) . ./plan
	@$(MAKE) --no-print-directory -j2 -O unit-sim-1 unit-sim-2
	$(RUN) $(NOVET) -run '$(WHOLE)' ./clusterfile

# A schedule does one thing at a time: two processes with a core each take half the time of one with both.
unit-sim-1: SELECT = -run '^Test[A-N]'
unit-sim-2: SELECT = -skip '^Test[A-N]'
unit-sim-1 unit-sim-2:
	$(RUN) -short $(NOVET) -cpu 1 $(SELECT) ./sim

# Etcd of every minor, etcdutl, a real S3 server. What takes, keeps and stores backups runs here only.
# FAST are tests that the race detector leaves no room for: thousands of leases that are to be listed in time, and
# transactions of thousands of keys, or a value of 129 MiB, which etcd has to answer in time.
FAST := ManyLeasesOverASlowLine|TestProperty_|AValueLargerThanAFrame
backups: gotest ## tests of backups, with real programs
	@$(MAKE) --no-print-directory -j2 -O backups-race backups-whole
	CKE_NEED_PROGRAMS=1 $(RUN) $(NOVET) -timeout 40m -count=1 -run '$(FAST)' ./backup/take

backups-race:
	CKE_NEED_PROGRAMS=1 CGO_ENABLED=1 $(RUN) -race $(NOVET) $(PARALLEL) -skip '$(FAST)' -timeout 40m -count=1 $$($(GO) list ./backup/... | grep -vx cke/backup)

backups-whole:
	CKE_NEED_PROGRAMS=1 $(RUN) $(NOVET) -timeout 40m -count=1 ./backup

# Not in `make test`: sabakan is built once, which takes a minute of processor time, and runs in a network of its own, which takes
# root. `make unit` has the other tests of inventories.
inventory: gotest ## tests of inventories, with a real sabakan server
	CKE_NEED_PROGRAMS=1 CGO_ENABLED=1 $(RUN) -race $(NOVET) -timeout 20m -count=1 ./sabakan/...

# Not in `make test`: it needs Docker nodes and what `make inventory` needs, and takes a quarter of an hour.
inventory-live: ## the cluster of a real sabakan server's machines, which are lab nodes, from bootstrap to successor
	CKE_NEED_PROGRAMS=1 $(GO) test $(NOVET) -timeout 60m -count=1 -v ./mtest -run TestLabSabakan -sabakan

# Not in `make test`: kube-apiserver takes a quarter of an hour to build once on two cores, and as long to run on Docker nodes.
apiserver: ## a real kube-apiserver and its clients, while etcd on real nodes is changed, damaged and restored
	CKE_NEED_PROGRAMS=1 $(GO) test $(NOVET) -timeout 100m -count=1 -v ./mtest -run 'TestLabAPIServer|TestKubeHistory' -apiserver

# Not in `make test`: promtool takes minutes to build.
alerts: gotest ## tests of alerts, with Prometheus's own promtool
	CKE_NEED_PROGRAMS=1 $(RUN) $(NOVET) -timeout 40m -count=1 ./monitoring

# Not in `make test`: it needs Docker nodes and Debian's package prometheus, and takes five minutes.
alerts-live: ## alerts of a cluster on real nodes, raised by a real Prometheus
	CKE_NEED_PROGRAMS=1 $(GO) test -timeout 40m -count=1 -v ./mtest -run TestLabAlerts -alerts

# Not in `make test`: it needs Chromium. Pictures of every page are left in .cache/page; PAGE=-update writes those of docs/images.
page: gotest ## tests of the status page, in Chromium
	@ui/need.sh
	$(GO) vet -tags browser ./ui ./internal/chromium
	$(RUN) -tags browser $(NOVET) -timeout 40m -count=1 ./ui -run '^TestBrowser_' $(PAGE)

# Not in `make test`: it needs Docker nodes and Chromium.
page-live: ## the status page of a cluster on real nodes, in Chromium
	@ui/need.sh
	$(GO) vet -tags browser ./mtest
	CKE_NEED_PROGRAMS=1 $(GO) test -tags browser $(NOVET) -timeout 40m -count=1 -v ./mtest -run TestLabPage_

# The stories of mtest run last and alone: what they wait for has limits, and they fill the machine by themselves.
# Tests on real nodes: containers with their own sshd and Docker engine.
nodes: gotest ## tests on real nodes
	CKE_NEED_PROGRAMS=1 $(RUN) $(NOVET) -timeout 40m -count=1 -run '^Test(Machine|Etcd|Observer)_' ./etcdnode
	CKE_NEED_PROGRAMS=1 $(RUN) $(NOVET) -timeout 40m -count=1 ./mtest/lab ./mtest/rig
	CKE_NEED_PROGRAMS=1 $(RUN) $(NOVET) -timeout 40m -count=1 ./mtest

# The stories that `make nodes` has, and the others that take longer: half an hour.
stories: ## more stories on real nodes: half an hour
	CKE_NEED_PROGRAMS=1 $(GO) test -timeout 80m -count=1 ./mtest -stories

# Every story on real nodes: every change, fault and crash under a load whose history is checked, and what else is rare.
matrix: ## every story on real nodes under load: more than an hour
	$(GO) test -timeout 85m -count=1 -v ./mtest -run TestLab -matrix

# What a month does to a cluster and its daemon, played in an hour on real nodes: nothing may grow that has no bound.
month: ## a month of a cluster in an hour: nothing may grow without a bound
	$(GO) test -timeout 100m -count=1 -v ./mtest -run TestLabMonth -month 60m

# The stories with programs that detect data races, and are slow.
nodes-race: ## the stories on real nodes with programs that detect data races
	CKE_RACE=1 CGO_ENABLED=1 $(GO) test -timeout 40m -count=1 ./mtest

bench: ## measure, one line for each figure
	@mtest/need.sh
	@$(GO) run ./bench

packages: ## build deb and rpm packages for amd64 and arm64 into dist/
	@GO='$(GO)' packaging/packages.sh

# EARLIER is the commit whose package is upgraded: the last one that differs in what is installed.
EARLIER ?= $(shell packaging/earlier.sh)
packages-test: packages ## packages: what is in them, the same bytes again, their life on a host with systemd
	$(GO) test -count=1 ./packaging -dist '$(CURDIR)/dist'
	CKE_NEED_PROGRAMS=1 $(GO) test -timeout 40m -count=1 -v ./mtest -run TestLabPackages -packages '$(CURDIR)/dist' -earlier '$(EARLIER)'

clean: ## remove what was built
	rm -rf $(BIN) dist $(GOTEST) .cache/times
