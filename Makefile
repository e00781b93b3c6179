# Two targets do everything on a fresh machine with Go, a C compiler, make and git:
#   make demo    the main job on a planted Round 9, on the CPU
#   make test    formatting, vet, staticcheck, all tests; with the race detector what starts goroutines
GO          ?= go
# go-nvml binds every call of the library, deprecated ones too.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 10s

.PHONY: control-plane all build pictures demo test test-watched test-unwatched check bench fuzz faults clean attack bench-judge bench-sets bench-overhead bench-clusters bench-cpu-profile

all: build

build:
	$(GO) build -o kbisect ./cmd/kbisect

demo: build
	./kbisect demo

# check is what needs no test to run.
check:
	@unformatted="$$(gofmt -l bisect cmd fixtures kernels pipeline)"; \
	if [ -n "$$unformatted" ]; then echo "gofmt these files:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	CGO_ENABLED=0 $(GO) vet ./pipeline/gpu ./pipeline # what is built otherwise without cgo, and what uses it
	$(GO) run $(STATICCHECK) ./...

# Tests make and remove tens of thousands of small files, which takes a quarter less processor time in memory: in
# /dev/shm, where it has room and programs may be started there.
SHM = $(shell d=$$(mktemp -d /dev/shm/kbisect.XXXXXX 2>/dev/null) && touch $$d/x && chmod +x $$d/x && $$d/x 2>/dev/null && \
  [ $$(df -Pk $$d | awk 'END { print $$4 }') -gt 8000000 ] && echo /dev/shm; [ -z "$$d" ] || rm -r $$d)

# What starts no goroutines is tested without the race detector, under which its thousands of simulated searches take five
# times as long. TestUnwatched keeps the list true.
UNWATCHED = ./bisect/... ./fixtures/simulate ./kernels/cuda ./kernels/kernelbot ./kernels/metrics ./kernels/protocol
# The detector does not follow the memory of SQLite, which is outside of the heap of Go; to look for it takes as long as all else.
WATCHED = -race -gcflags=modernc.org/...=-race=false -gcflags=modernc.org/sqlite=-race
# The longest first, so that none of them is left alone at the end.
LONGEST = ./cmd/kbisect ./cmd/kbisect/internal/search ./fixtures/clusters ./pipeline/proc ./pipeline/source ./pipeline ./fixtures ./kernels
# Without debug information (-w) the linker takes a third less time.
TESTING = env GORACE=atexit_sleep_ms=0 TMPDIR=$${TMPDIR:-$(or $(SHM),/tmp)} PATH="$(PYTHON)/bin:$$PATH" $(GO) test -vet=off -ldflags=-w -count=1 -timeout 45m
# Tests start Python thousands of times: one of their own starts at once, whatever the machine runs at each start.
KEPT = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kbisect-tests
PYTHON = $(KEPT)/python

# What failed is said once more at the end: the first lines of each test, as the rest of the output is long.
FAILED = awk '{ print; fflush() } /^(--- FAIL|panic:)/ { n = 60 } /^(ok|FAIL|\?) / { n = 0 } n-- > 0 { again = again $$0 "\n" } \
  /^FAIL/ { failed = 1 } END { if (failed) { printf "\nWHAT FAILED\n%s", again; exit 1 } }'

# Side by side, and more at a time than there are processors, since much of it waits for limits.
test:
	@[ -x $(PYTHON)/bin/python3 ] || python3 -m venv --without-pip $(PYTHON) || echo "there is no python3 for the tests"
	@$(MAKE) --no-print-directory -j3 test-watched test-unwatched check
test-watched:
	@{ $(TESTING) $(WATCHED) -p 3 -parallel 4 $(LONGEST) $$($(GO) list ./... | grep -vxF "$$($(GO) list $(UNWATCHED))") || echo FAIL; } 2>&1 | $(FAILED)
test-unwatched:
	@{ nice $(TESTING) -p 1 $(UNWATCHED) || echo FAIL; } 2>&1 | $(FAILED)

# control-plane builds etcd, kube-apiserver and kube-controller-manager for the tests of fixtures/clusters, from modules of
# their own; it takes six minutes the first time, and less than one from the build cache of Go.
CONTROL_PLANE = $(KEPT)/control-plane
control-plane:
	mkdir -p $(CONTROL_PLANE)
	cd fixtures/clusters/etcd && $(GO) build -trimpath -ldflags='-s -w' -o $(CONTROL_PLANE)/etcd .
	cd fixtures/clusters/controlplane && $(GO) build -trimpath -ldflags='-s -w' -o $(CONTROL_PLANE)/ k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager

# bench measures the pure core, and sets trees and whole searches beside git, RUNS pairs a row; figures are for ratios in one
# run. KBISECT_BENCH_DISK is a folder on a disk, where TMPDIR is none.
bench: build
	$(GO) test -run XXX -bench . -benchmem ./bisect/... ./pipeline/...
	KBISECT_BENCH_SCALE=$(RUNS) KBISECT_BENCH_TREES=$(RUNS) KBISECT_BENCH_SEARCH=$(CURDIR)/kbisect $(GO) test -v -count=1 -timeout 1h -run '^TestBench(Scale|Trees|TrivialSearch|Trial)$$' ./fixtures

# bench-cpu-profile prints what takes the time of our side of the rows of trees.
bench-cpu-profile:
	KBISECT_BENCH_TREES=$(RUNS) $(GO) test -count=1 -timeout 1h -run '^TestBenchTrees$$' -cpuprofile trees.prof -o trees.test ./fixtures
	$(GO) tool pprof -top -nodecount=40 trees.test trees.prof

# fuzz gives every fuzz target FUZZTIME.
fuzz:
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$target"; $(GO) test -run XXX -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

# faults injects FAULTS faults each into the searches of the pipeline and of the program.
FAULTS ?= 100
faults:
	KBISECT_FAULTS=$(FAULTS) $(GO) test -race -count=1 -timeout 45m -parallel 4 -v -run '^TestInjectedFaults$$' ./pipeline ./cmd/kbisect

# attack makes real attacks on the program and prints how many were tried and how many held. A test counts its attacks by
# its smallest subtests, or says the numbers itself. It takes half an hour.
ATTACKS = ./pipeline/source:TestSwitchEqualsCheckout,TestTreeBombsRefused,TestUnsafeTreesRefused,TestSymlinkEscape ./pipeline/folder:TestRemoveAll,TestDeepPaths \
  ./pipeline/proc:TestWardenKilled,TestWardenKilledByAStranger,TestWardenAttackedAtOnce,TestWardenStopped,TestKbisectStopped,TestStoppedByUser,TestLimitsLowered,TestSupervisorsAreClosedToTheProgram,TestMemoryMaxWithoutGroup,TestMachineOOM \
  ./pipeline/store:TestKill,TestDamage,TestDamagedLog,TestOtherFiles,TestFullDisk \
  ./pipeline/cache:TestDamage,TestConcurrent,TestKillInPut \
  ./cmd/kbisect/internal/search:TestResumedSearchIsTheSame \
  ./cmd/kbisect:TestTreeBomb,TestRepositoryMovedInMidSearch,TestHostileBytesReachNoStream,TestOwnership,TestHookNamesNewCommands,TestPipesDevicesAndFoldersInPlaceOfFiles,TestMemoryLimit,TestMemoryOfGroup,TestSurvivors,TestProcessesOfOthersAreAccountedFor,TestHostileCandidates,TestKilledAndResumed,TestKilledAtAnyInstant,TestStoreAndCacheDamage,TestInjectedFaults,TestNothingIsAccusedUnderBurstsOfLoad
attack:
	@rm -f attack.failed.log; printf '%-64s %6s %6s\n' attack tried held; failed=0; for a in $(ATTACKS); do \
	  tests=$$(echo $${a#*:} | tr , '|'); \
	  KBISECT_ATTACK=1 $(GO) test -count=1 -timeout 60m -parallel 6 -v -run "^($$tests)\$$" $${a%%:*} >attack.log 2>&1 || { failed=1; cat attack.log >>attack.failed.log; }; \
	  awk -v row='%-64s %6s %6s\n' -v room="$${a%%:*}" ' \
	    / attack: .*: tried [0-9]+, held [0-9]+$$/ { sub(/.* attack: /, ""); n = split($$0, w, /: tried |, held /); printf row, w[1], w[n-1], w[n]; next } \
	    / *--- (PASS|FAIL|SKIP): / { split($$3, part, "/"); name = part[1]; if (!(name in own)) order[++tests] = name; own[name] = own[name]; \
	      depth = split($$3, part, "/"); if (depth == 1) own[name] = $$2; else if (depth >= deep[name]) { \
	        if (depth > deep[name]) tried[name] = held[name] = 0; deep[name] = depth; tried[name]++; held[name] += $$2 == "PASS:" } } \
	    END { for (i = 1; i <= tests; i++) { name = order[i]; if (own[name] == "SKIP:") printf row, room " " name, 0, "-"; \
	      else if (name in tried) printf row, room " " name, tried[name], held[name]; else printf row, room " " name, 1, own[name] == "PASS:" } }' attack.log; \
	done; rm -f attack.log; test $$failed = 0 || echo 'output: attack.failed.log'; exit $$failed

clean:
	rm -f kbisect

# The search of a history against its targets, on a simulated device: JOBS searches a row (half as many where the machine
# changes in the session, five for two of these for intervals), of the seeds from SEED on; then the times between launches.
JOBS ?= 400
SEED ?= 1
bench-judge:
	KBISECT_BENCH_JUDGE=$(JOBS) KBISECT_BENCH_SEED=$(SEED) $(GO) test -v -count=1 -timeout 3h -run '^TestBench(Judge|All|Coverage|Failures)$$' ./fixtures/simulate
	$(GO) test -run XXX -bench Decision -benchtime 3x -timeout 1h ./fixtures/simulate

# The search of flags against its targets and the rivals, SEEDS searches a cell; Go's bisect itself beside it;
# then the ranking of slowdowns.
SEEDS ?= 1000
bench-sets:
	KBISECT_BENCH_SETS=$(SEEDS) $(GO) test -v -count=1 -run TestBenchSets ./fixtures/simulate
	KBISECT_BENCH_GOBISECT=10 $(GO) test -v -count=1 -run TestBenchGoBisect ./fixtures/simulate
	KBISECT_BENCH_EFFECTS=200 $(GO) test -v -count=1 -run TestBenchEffects ./bisect/effects

# Wall time beside git bisect run, in turn, RUNS pairs a row; BEFORE=FILE sets another kbisect beside it.
RUNS ?= 5
bench-overhead: build
	KBISECT_BENCH_OVERHEAD=$(CURDIR)/kbisect KBISECT_BENCH_BEFORE=$(BEFORE) KBISECT_BENCH_RUNS=$(RUNS) $(GO) test -v -count=1 -timeout 3h -run '^TestBenchOverhead$$' ./fixtures

# An empty job of Slurm and of Kubernetes, plain and of kbisect, in turn, JOBS_EACH of both. Kubernetes needs make control-plane.
JOBS_EACH ?= 20
bench-clusters:
	KBISECT_BENCH_JOBS=$(JOBS_EACH) $(TESTING) -count=1 -v -run '^TestBenchEmptyJob$$' ./fixtures/clusters

# The pictures of the README, from a real run: .github/demo.svg and .github/page-{light,dark}.png. It needs Chromium.
pictures: build
	KBISECT_PICTURES_OF=$(CURDIR)/kbisect $(GO) test -v -count=1 -run '^TestPictures$$' ./fixtures
