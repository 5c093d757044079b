# Everything that is built, tested and shown, and all that CI runs. `make` lists the targets.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory
.DEFAULT_GOAL := help

# Expensive results (VM images, the node's software) are kept here under a hash of their inputs, and outlive the clone.
export CPUPOOLD_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cpupoold

# One way to compile for everything but the race detector: each further one compiles all dependencies once more.
export GOFLAGS     := $(GOFLAGS) -trimpath
export CGO_ENABLED := 0

GO       ?= go
GOLANGCI := $(GO) tool -modfile=tools/go.mod golangci-lint
BUILD    := $(GO) build -buildvcs=auto -ldflags "-s -w"
FUZZTIME ?= 20s
KERNELS  ?= bookworm,trixie,forky

# Packages without goroutines, in their tests too, so that the race detector has nothing to find. Under it, tests take five to ten times
# the CPU time. All other packages are tested with it. test/arch checks this list.
SERIAL := internal/admission internal/capacity internal/cluster/hostedpriority internal/memorylimit internal/node/annotations internal/node/audit \
	internal/node/confined internal/node/durable internal/node/livereport internal/node/managers internal/node/noise internal/node/procroot \
	internal/node/report internal/node/schedwatch/account internal/node/waits internal/plugin/adopt internal/plugin/autoscale internal/plugin/lint internal/plugin/manifest internal/plugin/migrate \
	internal/plugin/overview internal/plugin/picture internal/plugin/simulate internal/testing/reference internal/testing/testnode/hardware \
	pkg/allocate pkg/cpuset pkg/defrag pkg/internal/bounded pkg/pools pkg/poolspec pkg/topology pkg/workload test/arch test/docs test/prometheus \
	test/vectors/choice test/vm/internal/manifest test/vm/internal/replay test/vm/internal/tsc

.PHONY: help build image release cross test test-all test-unit test-random test-node test-browser test-monitoring test-vm test-apiserver test-fleet test-deploy test-e2e test-conformance test-slice test-drift test-kernels test-disturbance test-matrix test-model test-model-fake soak churn demo vm-shell lint vuln prose prose-record fmt docs bpf bench bench-check bench-record bench-limits bench-jitter fuzz clean host host-vm

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{ printf "%-16s %s\n", $$1, $$2 }'

build: ## build bin/cpupoold, bin/cpupool-dra, bin/cpupool-webhook and bin/kubectl-cpupool for this machine, static
	$(BUILD) -o bin/cpupoold ./cmd/cpupoold
	$(BUILD) -o bin/cpupool-dra ./cmd/cpupool-dra
	$(BUILD) -o bin/cpupool-webhook ./cmd/cpupool-webhook
	$(BUILD) -o bin/kubectl-cpupool ./cmd/kubectl-cpupool

image: ## build bin/cpupoold-image.tar, the container image of deploy/, for amd64 and arm64
	rm -rf bin/image
	for arch in amd64 arm64; do GOARCH=$$arch $(BUILD) -o bin/image/$$arch/ ./cmd/cpupoold ./cmd/cpupool-dra ./cmd/cpupool-webhook; done
	$(GO) -C deploy/image run . -o $(CURDIR)/bin/cpupoold-image.tar -ref localhost/cpupoold/cpupoold:1 -from $(CURDIR)/bin/image -entrypoint cpupoold

release: ## build dist/, all files of a release, from the tag of the commit, and check them (VERSION=0.1.0: without a tag; IMAGE=registry.example.com/cpupoold)
	$(GO) -C release vet ./...
	rm -rf dist
	$(GO) -C release run . -repository .. -o ../dist $(if $(VERSION),-version $(VERSION)) $(if $(IMAGE),-image $(IMAGE))
	$(GO) -C release test -count=1 -run '^TestFiles$$' . -args -dist $(CURDIR)/dist

# To link every unit test, too, would take longer than all other lines.
cross: ## build bin/cpupoold-arm64, kubectl-cpupool for other machines, and compile every unit test for arm64
	GOARCH=arm64 $(BUILD) -o bin/cpupoold-arm64 ./cmd/cpupoold
	GOARCH=arm64 $(BUILD) -o bin/cpupool-dra-arm64 ./cmd/cpupool-dra
	GOARCH=arm64 $(BUILD) -o bin/cpupool-webhook-arm64 ./cmd/cpupool-webhook
	GOARCH=arm64 $(BUILD) -o bin/kubectl-cpupool-arm64 ./cmd/kubectl-cpupool
	GOOS=darwin GOARCH=arm64 $(BUILD) -o bin/kubectl-cpupool-darwin-arm64 ./cmd/kubectl-cpupool
	GOOS=windows GOARCH=amd64 $(BUILD) -o bin/kubectl-cpupool.exe ./cmd/kubectl-cpupool
	GOARCH=arm64 $(GO) list -test -export -f '' ./... >/dev/null

test: test-unit test-node ## run the unit tests, and on one node a check of each guarantee of the README

test-all: test-unit test-browser test-fleet ## run all tests that need no release files, apart from benchmarks and churn; many hours
	$(MAKE) test-vm PAIRS=all
	$(MAKE) test-disturbance
	$(MAKE) test-conformance

# TestSlices needs no machine. Here it fails within minutes, and not after an hour in a slice.
# Vet is a part of lint. A test of bench reads docs/reference/benchmarks.md, which is outside of its module: Go would take its result from the cache.
test-unit: host test-deploy test-monitoring ## run the unit tests, fuzz corpora and vectors, with the race detector where goroutines are
	$(GO) test -vet=off $(SERIAL:%=./%)
	$(GO) test -vet=off -tags vm -count=1 -run '^TestSlices$$' ./test/vm
	CGO_ENABLED=1 $(GO) test -race -vet=off -timeout 20m $(filter-out $(SERIAL:%=github.com/cpupoold/cpupoold/%),$(shell $(GO) list ./...))
	$(GO) -C test/vm/parts/image test ./...
	$(GO) -C deploy/image test ./...
	$(GO) -C release test ./...
	$(GO) -C test/scheduler test ./...
	$(GO) -C bench/jitter test ./...
	$(GO) -C bench test -count=1 ./...
	$(MAKE) bench-check

test-random: ## run the long random runs of the unit tests (STEPS=10000 CHURN=20000)
	$(GO) test -count=1 -timeout 6h -run '^(TestModel|TestChurn)$$' ./internal/node/daemon -model.steps $(or $(STEPS),10000) -churn $(or $(CHURN),20000)
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 1h -run '^TestModel$$' ./internal/node/daemon -model.steps 1000
	$(GO) test -count=1 -timeout 1h -run '^TestScenes$$' ./pkg/defrag -scenes 3000

# Without -count=1 the result would be taken for that of manifests which have changed since: Go looks only at files of the module.
test-deploy: ## render the chart and the kustomizations of deploy/, and hold them to its plain manifests
	$(GO) -C test/deploy test -count=1 ./...

test-monitoring: ## hold rules, dashboard and runbooks to the metrics, and try the rules (fetches Debian's promtool once)
	tool=$$(test/monitoring/promtool.sh) && PROMTOOL="$$tool" $(GO) -C test/monitoring test -count=1 ./...

test-node: host-vm build ## check each guarantee of the README on one node, a virtual machine
	$(GO) test -tags vm -count=1 -timeout 30m -run '^TestGuarantees$$' ./test/vm

test-vm: host-vm build ## run the tests on real kernels and a real node, in virtual machines, and all that is in a slice (PAIRS=all)
	$(GO) test -tags vm -count=1 -timeout 300m ./test/vm -pairs $(or $(PAIRS),slice)

test-slice: host-vm build ## run of test-vm the slice that the commit chooses (SLICE=faults: that one)
	$(GO) test -tags vm -count=1 -timeout 70m ./test/vm -slice $(or $(SLICE),commit) -starts few -soak 5m -undo.rounds 2

test-apiserver: build ## run cpupool-webhook, the slices and rights of cpupool-dra, the rights of a daemon, and releases of the chart against a real API server, on this machine (builds kube-apiserver once)
	$(GO) -C test/apiserver test -tags apiserver -count=1 -timeout 30m ./...
	$(GO) -C test/claims test -tags apiserver -count=1 -timeout 30m ./...
	$(GO) -C test/deploy test -tags apiserver -count=1 -run TestRelease -timeout 30m ./...

test-browser: ## look at the pages of kubectl-cpupool serve with Chromium, which is installed when it is missing (SHOTS=dir: screenshots)
	@command -v chromium >/dev/null || { apt-get -q update && apt-get install -qy --no-install-recommends chromium; }
	$(GO) -C test/browser test -count=1 ./... -args $(if $(SHOTS),-shots $(abspath $(SHOTS)))

test-fleet: ## measure what the daemons of 300 nodes ask of a real API server, on this machine (builds kube-apiserver once)
	$(GO) -C test/fleet test -tags fleet -count=1 -v -timeout 20m ./...

test-e2e: host-vm build image ## install and use cpupoold in a cluster, of virtual machines (builds the control plane once; RUN=TestLife)
	$(GO) test -tags e2e -count=1 -timeout 80m -run '^($(or $(RUN),.*))$$' ./test/e2e

test-conformance: host-vm build image ## run Kubernetes' own tests of nodes before and after cpupoold is installed (CASES=Resize: of these)
	$(GO) test -v -tags e2e -count=1 -timeout 120m -run '^TestConformance$$' ./test/e2e -conformance '$(or $(CASES),.)'

test-matrix: host-vm build ## run what holds on every runtime, systemd and kernel on all of them
	$(GO) test -tags vm -count=1 -timeout 300m -run '^TestPairs$$' ./test/vm -pairs $(or $(PAIRS),all) -starts many

test-model: host-vm build ## run 300 steps of the model test, of more kinds, on a real node (SEED=1 SUITE=trixie)
	$(GO) test -tags vm -count=1 -timeout 75m -run '^TestDaemon$$/^TestModel$$' ./test/vm -model.more -model.steps 300 -model.seed $(or $(SEED),1) -model.suite=$(SUITE)

test-model-fake: ## run the model test on a fake node, 10,000 steps in sequences of 250 (STEPS=50000; SEED=7: that sequence alone)
	$(GO) test -v -count=1 -timeout 12h -run '^TestModel$$' ./internal/node/daemon -model.steps $(or $(STEPS),10000) -model.seed $(or $(SEED),0)

soak: host-vm build ## break parts of a node at random, and kill the daemon 200 times with each kind of pool (SEED=1 DURATION=10m SUITE=trixie KILLS=200 PAIRS=containerd,crio-crun STATE=file: continues from it, LIMIT=8m: begins no further kill)
	$(GO) test -v -tags vm -count=1 -timeout 200h -run '^TestSoak$$' ./test/vm -soak $(or $(DURATION),10m) -soak.seed $(or $(SEED),1) -soak.suite=$(or $(SUITE),trixie) \
		-soak.kills $(or $(KILLS),200) -soak.pairs $(if $(PAIRS),$(PAIRS),containerd,crio-crun) -soak.state $(abspath $(or $(STATE),$(CPUPOOLD_CACHE)/soak.json)) -soak.limit $(or $(LIMIT),0)

churn: host-vm build ## start and stop 5,000 containers on a node, and 1,000,000 on a fake one: nothing of the daemon's may grow (CHURN=1000 RUNTIME=containerd)
	$(GO) test -v -count=1 -timeout 200h -run '^TestChurn$$' ./internal/node/daemon -churn $(or $(CHURN),1000000)
	$(GO) test -v -tags vm -count=1 -timeout 200h -run '^TestChurn$$' ./test/vm -churn $(or $(CHURN),5000) -churn.runtime $(or $(RUNTIME),crio-crun)

test-drift: host-vm build ## run the tests of external writes on a real node (SUITE=trixie)
	$(GO) test -tags vm -count=1 -timeout 75m -run '^TestDrift$$' ./test/vm -drift.suite=$(SUITE)

test-kernels: host-vm build ## run what depends on the kernel, on the oldest, 6.12 and the newest (KERNELS=forky)
	$(GO) test -tags vm -count=1 -timeout 150m -run '^TestKernels$$' ./test/vm -kernels=$(KERNELS)

test-disturbance: host-vm build ## count the effects of CPU handovers on a neighbour, on the kernels that have partitions (HANDOVERS=100)
	$(GO) test -v -tags vm -count=1 -timeout 75m -run '^TestDisturbance$$' ./test/vm -disturbance $(or $(HANDOVERS),100)

# A compiler process is short: its garbage collector would take a fifth of the CPU time.
demo: ## boot a node, run cpupoold and pods of every kind, and compare the CPUs by cpupoold with those by the kernel
	@echo "compile the demo"
	GOGC=off $(GO) run ./test/vm/cmd/vm demo

vm-shell: host-vm build ## boot a node and open a shell in it
	$(GO) run ./test/vm/cmd/vm shell

lint: prose ## run the linters, check that go.mod is tidy, and check the workflows of GitHub
	$(GO) mod tidy -diff
	$(GOLANGCI) run
	$(GO) tool -modfile=release/go.mod actionlint

vuln: ## check the programs for known vulnerabilities, if the database answers
	test/vuln.sh

prose: host ## check that no directory gains hits of the prose lint (vale/README.md)
	vale/prose.sh check

prose-record: host ## record the hits of the prose lint, vale/baseline.txt, after text has become plainer
	vale/prose.sh record

fmt: ## format the code
	$(GOLANGCI) fmt

docs: ## write the generated pages in docs: metrics, keys of configurations, chart values, man pages, benchmarks, support matrix
	$(GO) test ./internal/node/telemetry ./internal/config ./internal/cluster/webhook ./internal/cluster/hostedpriority ./cmd/cpupoold ./cmd/cpupool-dra ./cmd/kubectl-cpupool ./test/vm/internal/matrix -run 'TestPage$$|TestDocument$$|TestPicture$$|TestReference$$|TestManPages' -update
	$(GO) -C test/deploy test . -run 'TestChartReadme$$' -update
	$(GO) -C bench run ./cmd/page results ..

# Other versions of clang give other objects, so the objects are committed. TestObjects compares hashes.
bpf: ## build the eBPF program of the live audit from internal/node/schedwatch/bpf, with Debian's clang (installs it when it is missing)
	@command -v clang llvm-strip >/dev/null || { apt-get -q update && apt-get install -qy --no-install-recommends clang llvm; }
	internal/node/schedwatch/bpf/build.sh

bench: host-vm build ## run the benchmarks, here and in VMs: writes bench/results and docs/reference/benchmarks.md (PARTS=host: not in VMs)
	bench/record.sh $(PARTS)

bench-check: host ## fail where a benchmark allocates a fifth more than the record says, or executes a fifth more instructions
	bench/quick.sh | $(GO) -C bench run ./cmd/check record.txt

bench-record: host ## write a new record of allocations and instructions, bench/record.txt (on amd64)
	bench/quick.sh >bench/record.txt.new && mv bench/record.txt.new bench/record.txt

bench-limits: host-vm ## of bench, measure single steps of the daemon and the bare system calls, on three kernels
	bench/record.sh limits

bench-jitter: build ## measure, on hardware of yours, what interrupts a CPU with and without cpupoold, under load (DURATION=60s; docs/how-to/measure-jitter.md)
	CGO_ENABLED=0 $(GO) -C bench/jitter build -trimpath -o ../../bin/jitter .
	PATH="$(CURDIR)/bin:$$PATH" bin/jitter -duration $(or $(DURATION),60s) -json bin/jitter.json

fuzz: host ## fuzz every target for FUZZTIME (20s)
	test/fuzz.sh $(FUZZTIME)

clean: ## remove the build results; the cache stays
	rm -rf bin
	@echo "kept: $(CPUPOOLD_CACHE) (VM images and node software, rebuilt when removed)"

# Packages of Debian: C and C++ compilers, valgrind to count instructions; for VMs QEMU and programs that make images.
host:
	@test/prepare.sh

host-vm: host
	@test/vm/image/prepare.sh
