# The verbs of the house. Each is one line of what it does and a few of how.

GO       ?= go
FUZZTIME ?= 30s
# The race detector needs a C compiler; without one the tests run all the same.
RACE     := $(shell command -v $$($(GO) env CC) >/dev/null 2>&1 && echo -race)
LINT     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.13.2

.DEFAULT_GOAL := help
.PHONY: help test modules format vet unit lint conform build fuzz bench clean

help: ## print these verbs
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: modules format vet unit ## check format, vet, floors, documents, and run all tests with the race detector

modules: # what the tests need, and nothing else
	$(GO) mod download

format:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "not as gofmt has it:" $$unformatted >&2; exit 1; fi

vet:
	$(GO) vet ./...

unit:
	@$(if $(RACE),,echo "no C compiler: the tests run without the race detector" >&2)
	$(GO) test $(RACE) -timeout 15m ./...

lint: ## look for what the compiler does not mind
	$(GO) run $(LINT) run ./...

conform: ## run the transcripts; ARGS='--endpoint URL' runs them against another server
	$(GO) run ./cmd/stator conform $(ARGS)

build: ## build bin/stator, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/stator ./cmd/stator

fuzz: ## run each fuzz target for FUZZTIME (30s)
	@set -eu; for package in $$($(GO) list ./...); do \
		targets=$$($(GO) test -list '^Fuzz' $$package); \
		for target in $$(echo "$$targets" | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$package; \
		done; \
	done

bench: ## run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

clean: ## remove what build made
	rm -rf bin

.PHONY: clients
clients: ## run well-known client libraries against it; needs npm, and python3-boto3 and awscli unless skipped
	cd clients/go && $(GO) test ./...
	cd clients/node && npm ci && npm test
	cd clients/go && $(GO) run ./serving --in ../python python3 -m unittest
	cd clients/go && $(GO) run ./serving --in .. ./aws-cli.sh
