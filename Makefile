# Everything that is built, checked and shown, each by one target; `make help` lists them.
#
# A recipe is one or more stages: $(call stage,NAME,COMMAND) says what begins, runs the command, and says how long it took or which
# stage failed. The first failing stage ends make. Nothing here needs a terminal or leaves a process behind.
#
# A target joins `help` by a "## text" behind its name, and `ci` by CI_STAGES. Targets whose code is not there yet are not defined.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

GO      ?= go
BIN     := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Released binaries: static, no paths of the building machine, the version told at link time. Git metadata is not asked for, since a
# checkout that belongs to somebody else makes git refuse and the build fail.
GO_BUILD := CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '-s -w -X main.version=$(VERSION)'
# Tests: one package may take that long before go test ends it with all goroutines shown.
TEST_TIMEOUT ?= 10m
GO_TEST = $(GO) test -buildvcs=false -race -shuffle=on -timeout=$(TEST_TIMEOUT)
# Which packages test, vet and golangci-lint look at; for work on one package: make test lint PKG=./policy/...
PKG ?= ./...
# Which of the end-to-end tests run: make e2e RUN=TestWhatAPluginSets
RUN ?= .
# How long each fuzz target runs.
FOR ?= 10s
FUZZTIME ?= $(FOR)
# The second of the two builds of the NRI library that have to pass.
NO_WASM := nri_no_wasm
# The tag of tests that need root.
ROOT := root

define stage
@printf '\n==> %s\n' '$(strip $(1))'; \
status=0; ( $(2) ) || status=$$?; \
if [ $$status -ne 0 ]; then printf '<== %s FAILED after %d s (exit %d)\n' '$(strip $(1))' $$SECONDS $$status >&2; exit $$status; fi; \
printf '<== %s ok in %d s\n' '$(strip $(1))' $$SECONDS
endef

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / {print $$1 "\t" $$2}' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name text; do \
		case ' $(TARGETS) ' in *" $$name "*) printf '  make %-12s %s\n' "$$name" "$$text";; esac; done
TARGETS += help

# ---- build ----------------------------------------------------------------------------------------------------------------------

COMMANDS := $(wildcard cmd/*)

.PHONY: build
build: ## bin/nri-supervisor, static, for this machine
	$(call stage,build,mkdir -p $(BIN) && for c in $(COMMANDS); do $(GO_BUILD) -o "$(BIN)/$$(basename $$c)" ./$$c; done)
TARGETS += build

.PHONY: cross
cross: ## compile for linux/amd64 and linux/arm64, with and without the tag nri_no_wasm
	$(call stage,cross amd64,GOARCH=amd64 CGO_ENABLED=0 $(GO) build -buildvcs=false ./...)
	$(call stage,cross amd64 $(NO_WASM),GOARCH=amd64 CGO_ENABLED=0 $(GO) build -buildvcs=false -tags $(NO_WASM) ./...)
	$(call stage,cross arm64,GOARCH=arm64 CGO_ENABLED=0 $(GO) build -buildvcs=false ./...)
	$(call stage,cross arm64 $(NO_WASM),GOARCH=arm64 CGO_ENABLED=0 $(GO) build -buildvcs=false -tags $(NO_WASM) ./...)
TARGETS += cross

.PHONY: generate
generate: ## run go generate; a test fails when its output is not committed
	$(call stage,generate,$(GO) generate ./...)
TARGETS += generate

# ---- read -----------------------------------------------------------------------------------------------------------------------

LINTER := $(BIN)/golangci-lint

# The linter is built from the module that pins it, again whenever the pin moves.
$(LINTER): tools/go.mod tools/go.sum
	$(call stage,build golangci-lint,mkdir -p $(BIN) && CGO_ENABLED=0 $(GO) build -C tools -buildvcs=false -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint && touch $@)

.PHONY: fmt
fmt: $(LINTER) ## format all Go code
	$(call stage,fmt,$(LINTER) fmt)
TARGETS += fmt

.PHONY: lint
lint: $(LINTER) ## go vet with and without the tag nri_no_wasm, golangci-lint
	$(call stage,vet,$(GO) vet -buildvcs=false $(PKG))
	$(call stage,vet $(ROOT),$(GO) vet -buildvcs=false -tags $(ROOT) $(PKG))
	$(call stage,vet $(NO_WASM),$(GO) vet -buildvcs=false -tags $(NO_WASM) $(PKG))
	$(call stage,golangci-lint,$(LINTER) run --allow-parallel-runners $(PKG))
TARGETS += lint

# ---- test -----------------------------------------------------------------------------------------------------------------------

.PHONY: test
test: ## all tests that need no root, with the race detector, in random order
	$(call stage,test,$(GO_TEST) $(PKG))
TARGETS += test

.PHONY: manuals
manuals: ## run every command of README.md and docs/ as a reader would, and compare what it prints
	$(call stage,manuals,$(GO) vet -buildvcs=false -tags manuals ./test/docs && $(GO) test -buildvcs=false -count=1 -timeout=$(TEST_TIMEOUT) -tags manuals ./test/docs)
TARGETS += manuals

ifneq ($(wildcard test/integration/*_test.go),)
.PHONY: integration
integration: ## against the real NRI adaptation
	$(call stage,integration,$(GO_TEST) -count=1 ./test/integration/...)
TARGETS += integration
endif

# With PLUGIN, only that program is tried; PROTOCOL=nri for one without the SDK, CONFIG for its configuration.
PLUGIN   ?=
PROTOCOL ?= go-plugin
CONFIG   ?=
# How long a soak lasts unless FOR says so, and what its random choices come from; empty: the clock.
SOAK := $(if $(filter file default undefined,$(origin FOR)),5m,$(FOR))
SEED ?=

# $(call chaos,FLAGS OF THE TESTS): runs them and then shows what they report.
chaos_run = report=$$(mktemp); trap 'rm -f "$$report"' EXIT; \
	$(GO_TEST) -count=1 ./test/chaos $(1) -chaos.report="$$report" || { cat "$$report"; exit 1; }; cat "$$report"

.PHONY: chaos
chaos: export CHAOS_CONFIG = $(CONFIG)
chaos: ## every fault at every event, with real subprocesses; PLUGIN=/path/to/binary: tries your own plugin instead
	$(call stage,chaos,$(call chaos_run,$(if $(PLUGIN),-run TestAPluginOfYourOwn -chaos.plugin='$(abspath $(PLUGIN))' -chaos.protocol=$(PROTOCOL) -chaos.config="$$CHAOS_CONFIG",-chaos.matrix=all)))
TARGETS += chaos

.PHONY: chaos-soak
chaos-soak: TEST_TIMEOUT = 2h
chaos-soak: ## random faults, several at once, FOR=5m; SEED=N repeats one
	$(call stage,chaos-soak,$(if $(SEED),export NRI_SUPERVISOR_TEST_SEED=$(SEED);) $(call chaos_run,-run TestRandomFaultsAtOnceKeepThePromises -v -chaos.soak=$(SOAK)))
TARGETS += chaos-soak

ifneq ($(wildcard test/compat/run.sh),)
.PHONY: compat
compat: ## beside the runtime side of NRI 0.8 to 0.12
	$(call stage,compat,bash test/compat/run.sh)
TARGETS += compat
endif

ifneq ($(wildcard test/e2e/*_test.go),)
.PHONY: e2e
e2e: ## beside a real containerd that creates real containers; needs root, builds containerd once
	$(call stage,e2e components,bash test/e2e/prepare.sh)
	$(call stage,e2e,$(GO) test -C test/e2e -count=1 -v -timeout=$(TEST_TIMEOUT) -run '$(RUN)' . | grep -v '^=== RUN')
TARGETS += e2e
endif

# The module of test/ui uses this one as it is: a copy of its go.mod follows this one's versions, so that a change here needs none there.
ifneq ($(wildcard test/ui/*_test.go),)
.PHONY: e2e-ui
e2e-ui: ## the status page in a real Chromium, which is installed if it is not there; pictures in test/ui/artefacts
	$(call stage,chromium,command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } </dev/null >/dev/null)
	$(call stage,e2e-ui,mkdir -p .cache/ui && cp test/ui/go.mod .cache/ui/ && sort -u test/ui/go.sum go.sum >.cache/ui/go.sum && \
		$(GO) test -C test/ui -modfile=$(CURDIR)/.cache/ui/go.mod -mod=mod -buildvcs=false -count=1 -shuffle=on -timeout=$(TEST_TIMEOUT) .)
TARGETS += e2e-ui
endif

.PHONY: isolation
isolation: ## hostile plugins against their confinement, as root
	$(call stage,isolation,$(GO_TEST) -count=1 -tags $(ROOT) ./test/isolation)
TARGETS += isolation

# Those that need no program beside the test binary, and whose outcome depends on the cgroups or on an older kernel.
IN_GUEST := Limit|Cgroup|Surviv|WantOfMemory|Guardian|MountNamespaces|MakesRoom|TheManifestsUser|OtherProcesses|ADevice|MountedLater|AppearsLater|BesideHidden

.PHONY: test-cgroup2
test-cgroup2: ## limits and survivors in a guest with cgroup v2 only; installs the emulator and downloads a kernel
	$(call stage,emulator and kernel,bash tools/cgroup2.sh prepare)
	$(call stage,test-cgroup2,CGO_ENABLED=0 $(GO) test -buildvcs=false -v -count=1 -parallel=2 -timeout=200s -tags $(ROOT) -run '$(IN_GUEST)' -skip 'ProcessLimit|Throttle' \
		-exec 'bash $(CURDIR)/tools/cgroup2.sh run' ./test/isolation | grep -v -e '^=== ')
TARGETS += test-cgroup2

.PHONY: fuzz
fuzz: ## each fuzz target for a time: FOR=10s
	$(call stage,fuzz,bash tools/fuzz.sh $(FUZZTIME))
TARGETS += fuzz

.PHONY: golden
golden: ## write the golden files anew; read the diff before committing it
	$(call stage,golden,bash tools/golden.sh)
TARGETS += golden

ifneq ($(wildcard test/monitoring/*_test.go),)
.PHONY: monitoring
monitoring: ## alerts against a real promtool and a real Prometheus
	$(call stage,prometheus,bash tools/prometheus.sh)
	$(call stage,promtool check rules,.cache/prometheus/promtool check rules deploy/monitoring/rules.yaml)
	$(call stage,promtool test rules,.cache/prometheus/promtool test rules deploy/monitoring/rules_test.yaml)
	$(call stage,monitoring,$(GO) vet -buildvcs=false -tags monitoring ./test/monitoring && \
		NRI_SUPERVISOR_PROMETHEUS=$(CURDIR)/.cache/prometheus $(GO) test -buildvcs=false -timeout=5m -count=1 -tags monitoring ./test/monitoring)
TARGETS += monitoring
endif

# ---- show -----------------------------------------------------------------------------------------------------------------------

ifneq ($(wildcard cmd/nri-supervisor/*.go),)
.PHONY: demo
demo: build ## the point in about half a minute: three teams' plugins, two of them broken, no container runtime needed
	$(call stage,demo,$(BIN)/nri-supervisor demo)
TARGETS += demo
endif

ifneq ($(wildcard test/bench/*.go),)
.PHONY: bench
bench: build ## measure against the stock NRI, a table, and bin/bench/results.json
	$(call stage,bench,$(GO) run -buildvcs=false ./test/bench -supervisor $(BIN)/nri-supervisor -o $(BIN)/bench)
TARGETS += bench

.PHONY: bench-gate
bench-gate: build ## the ratios that are promised; fails when one is behind its bar
	$(call stage,bench-gate,$(GO) run -buildvcs=false ./test/bench -supervisor $(BIN)/nri-supervisor -gate)
TARGETS += bench-gate
endif

# ---- deliver --------------------------------------------------------------------------------------------------------------------

ifneq ($(wildcard deploy/release.sh),)
.PHONY: release
release: ## dist/: static binaries and container images for linux/amd64 and linux/arm64, and man pages, with checksums
	$(call stage,release,bash deploy/release.sh '$(VERSION)')
TARGETS += release

.PHONY: deploy
deploy: release ## check what is delivered: binaries, images, systemd unit, Kubernetes manifests
	$(call stage,systemd,command -v systemd-analyze >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd; } </dev/null >/dev/null)
	$(call stage,deploy,$(GO) test -buildvcs=false -count=1 -tags deploy ./deploy)
TARGETS += deploy
endif

# ---- all ------------------------------------------------------------------------------------------------------------------------

# Everything above that checks something; generate, fmt and golden write instead, and tests tell when their output is not committed.
# Integration is a package that test runs already; of the chaos matrix test runs a sample. The whole matrix (chaos) joins when it has been seen to pass on more
# than one kind of machine; until then it is run by hand. What is promised of speed comes last, when nothing else is left to run beside it.
CI_STAGES := test lint build cross $(filter manuals demo monitoring deploy isolation test-cgroup2 compat e2e e2e-ui,$(TARGETS)) fuzz $(filter bench-gate,$(TARGETS))

.PHONY: ci
ci: ## all checks, one after the other; the first that fails ends it
	@for stage in $(CI_STAGES); do \
		$(MAKE) $$stage || { printf '\nci: stage %s failed after %d s\n' "$$stage" $$SECONDS >&2; exit 1; }; \
	done; \
	printf '\nci: %s: all passed in %d s\n' '$(CI_STAGES)' $$SECONDS
TARGETS += ci
