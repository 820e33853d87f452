# The verbs of the house. Each is one line of what it does and a few of how.

SHELL       := bash
.SHELLFLAGS := -o pipefail -ec

GO       ?= go
FUZZTIME ?= 30s
# The race detector needs a C compiler; without one the tests run all the same.
RACE     := $(shell command -v $$($(GO) env CC) >/dev/null 2>&1 && echo -race)
# The cluster that cluster/rig starts.
TEST_TIKV := tikv://127.0.0.1:2379,127.0.0.1:2479,127.0.0.1:2579?quirks=unistore
LINT     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.13.2

.DEFAULT_GOAL := help
.PHONY: help test modules format vet unit lint conform build build-tikv test-cluster conformance-tikv fuzz torture bench micro prose clean

help: ## print these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

include cluster/build.mk

test: modules format vet unit ## check format, vet, floors, documents, and run all tests with the race detector

modules: # what the tests need, and nothing else
	$(GO) mod download

format:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "not as gofmt has it:" $$unformatted >&2; exit 1; fi

vet:
	$(GO) vet ./...

# The race detector itself fails now and then where time is virtual (golang/go#78156).
# When that is all that failed, those packages run once more; what has passed does not.
raced = log=$$(mktemp); trap "rm -f $$log" EXIT; \
	again() { grep -q '^ThreadSanitizer: CHECK failed' $$log && ! grep -qE '^ *--- FAIL|^panic:|DATA RACE' $$log; }; \
	$(GO) test $(RACE) -timeout 15m ./... 2>&1 | tee $$log || \
	{ again && echo "the race detector failed, no test did: once more" && $(GO) test $(RACE) -timeout 15m ./...; }

# What is left out under the race detector, because it is too slow there or counts
# allocations, runs without it.
unit:
	@$(if $(RACE),,echo "no C compiler: the tests run without the race detector" >&2)
	@$(raced)
	$(if $(RACE),$(GO) test -run 'Allocations|Region|TwoServers' . ./internal/...)
	cd bench && $(GO) vet ./... && $(GO) test ./...
	cd apps && $(GO) vet ./...
	@cd apps && $(raced)
	$(if $(RACE),cd apps && $(GO) test -run Thousands ./downloads)

lint: ## look for what the compiler does not mind
	$(GO) run $(LINT) run ./...
	cd apps && $(GO) run $(LINT) run ./...

conform: ## run the transcripts; ARGS='--endpoint URL' runs them against another server
	$(GO) run ./cmd/stator conform $(ARGS)

build: ## build bin/stator, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/stator ./cmd/stator

build-tikv: ## build bin/stator-tikv, which can keep its data in a TiKV cluster
	CGO_ENABLED=0 $(GO) build -trimpath -tags tikv -o bin/stator-tikv ./cmd/stator

test-cluster: modules cluster-binaries ## test on 3 placement drivers and 3 stores, in a network of their own
	$(GO) test -tags cluster -c -o bin/tikv.test ./internal/store/tikv
	STATOR_TIKV='$(TEST_TIKV)' $(GO) run ./cluster/rig/run bin/tikv.test -test.run TestCluster
	$(GO) test -tags cluster -count=1 -p 1 -timeout 25m ./cluster/...

conformance-tikv: modules ## test on a TiKV cluster of yours: PD=host:2379
	STATOR_TIKV='tikv://$(PD)?prefix=conformance' $(GO) test -tags cluster -count=1 -timeout 30m -run TestCluster ./internal/store/tikv
	STATOR_TIKV='tikv://$(PD)?prefix=conformance' $(GO) test -tags cluster -count=1 -timeout 30m -run 'TestTranscripts|TestSerialisable' ./cluster

fuzz: ## run each fuzz target for FUZZTIME (30s)
	@set -eu; for package in $$($(GO) list ./...); do \
		targets=$$($(GO) test -list '^Fuzz' $$package); \
		for target in $$(echo "$$targets" | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$package; \
		done; \
	done

torture: ## break things on purpose, each rig for TORTURETIME (30s), and write down what came of it in torture/LEDGER.md; needs root for power cuts and full disks
	$(GO) test -count=1 -timeout 6h -v ./torture -torture -torture.for $(or $(TORTURETIME),30s)
	$(GO) test -count=1 -timeout 1h -v -run 'Killed|Kills' ./internal/serialtest -serial.killed 50000

bench: ## compare with other servers and with ceilings; ARGS='--workload get' chooses
	cd bench && $(GO) run . $(ARGS)

micro: ## run the benchmarks beside the packages
	$(GO) test -run '^$$' -bench . -benchmem ./...

prose: ## count words in comments that are not plain technical English; ARGS=--list shows where
	$(GO) run ./docs/prose $(ARGS)

clean: ## remove what build made
	rm -rf bin

.PHONY: clients
clients: ## run well-known client libraries against it; needs npm, and python3-boto3 and awscli unless skipped
	cd clients/go && $(GO) test ./...
	cd clients/node && npm ci && npm test
	cd clients/go && $(GO) run ./serving --in ../python python3 -m unittest
	cd clients/go && $(GO) run ./serving --in .. ./aws-cli.sh
