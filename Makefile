# Fulmar: what there is to do, one word each. `make` alone lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# rustup installs here; a shell opened before that does not know yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
CARGO ?= cargo
# Crates that must also build without the standard library.
NO_STD := fulmar-units fulmar-gf fulmar-fec fulmar-control

.PHONY: help demo demo-tcp test test-deep fmt fmt-check clippy unit doc examples no-std deny results results-quick sample benchmark bench-codes siege fuzz-quick release deb lab install \
	bench-loopback bench-instructions comparison comparison-real applications operator dashboard dashboard-test dashboard-pictures

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# FILE=path copies that file instead of 100 MB made up on the spot; ARGS="--loss 20 --rtt 250" changes the path.
demo: toolchain ## copy a file over a lossy path and watch it: make demo [FILE=...] [ARGS="--loss 20 --rtt 250"]
	$(CARGO) run --release --locked -p fulmar-cli -- demo $(if $(FILE),--file "$(FILE)") $(ARGS)

# ARGS="--tcp=bbr,cubic" names congestion controls of the kernel.
demo-tcp: toolchain ## the same beside the kernel's TCP; root, or user namespaces: make demo-tcp [FILE=...] [ARGS="--tcp=bbr"]
	$(CARGO) run --release --locked -p fulmar-lab -- demo $(if $(FILE),--file "$(FILE)") $(ARGS)

# The page first: the program that has it inside is built once. `unit` builds the examples too.
test: fmt-check dashboard clippy no-std unit engine-alone doc dashboard-test ## everything: format, lints, docs, examples, every test

# What a change seldom breaks and what takes long: longer each night than with each change.
test-deep: test test-instructions ## the same, long sweeps, instructions per packet, and every fuzz target for a minute, as a nightly run would
	$(CARGO) test --workspace --locked --test controllers -- --ignored --skip cells::
	$(MAKE) --no-print-directory fuzz-quick SECONDS_EACH=60

fmt: ## format the sources
	$(CARGO) fmt --all

fmt-check: toolchain ## is everything formatted?
	$(CARGO) fmt --all -- --check

clippy: toolchain ## lints; a warning is an error
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Many tests wait for real programs: twice as many at a time as there are cores.
unit: toolchain test-programs ## every test, documentation tests among them
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$((2 * $$(nproc)))} $(CARGO) test --workspace --locked --no-fail-fast

doc: toolchain ## the documentation builds without a warning
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

examples: toolchain ## every example builds
	$(CARGO) build --workspace --examples --locked

no-std: toolchain ## the lower crates build without the standard library
	@for crate in $(NO_STD); do echo "no_std: $$crate"; $(CARGO) check -p $$crate --no-default-features --locked; done

# As a library user or a router has it: the feature `systems` off. Library and program are asked for together, so that what they
# depend on has the features that it has in the other tests: tokio and most others are there by then.
ALONE := -p fulmar -p fulmar-cli --no-default-features --test engine_alone --locked
.PHONY: engine-alone
engine-alone: toolchain ## the engine without the published systems: builds, refuses them, and gets on with peers that have them
	$(CARGO) check $(ALONE) --lib
	$(CARGO) test $(ALONE)

deny: ## licences, bans and sources of dependencies (needs cargo-deny)
	$(CARGO) deny --locked check licenses bans sources

# Sweeps in virtual time use all cores; kernel TCP's runs need root and real time, and what cannot run here is named and left out. All go
# on where they were interrupted. Many machines share the work with ARGS="--shard I/N": docs/lab.md, scripts/results.slurm, scripts/results-job.yaml.
LAB := $(CARGO) run --release --locked -p fulmar-lab --
results: toolchain ## every experiment in full, and the report in docs/results: hours (make results [ARGS="--shard 0/8"])
	$(LAB) run experiments/*.toml experiments/auto/*.toml --skip-missing $(ARGS)
	$(LAB) report --out docs/results

# Two files have no cell that takes less than ten minutes.
SLOW := experiments/dfcp-table-4.1-1g.toml experiments/dfcp-table-4.1-10g-cubic.toml
results-quick: toolchain ## a cell of every experiment, and whether its claim holds: some twenty minutes
	$(LAB) run $(filter-out $(SLOW),$(wildcard experiments/*.toml experiments/auto/*.toml)) --skip-missing --sample --out results-quick
	$(LAB) report results-quick

# Cells whose claims hold, by the program that the tests have built: some seconds of a processor. It fails when a verdict flips.
SAMPLE := lt-tcp-table-2.2-transfers lt-tcp-table-2.4 lt-tcp-table-2.5-window ctcp-loss tcp-nc-table-2
sample: toolchain ## whether some claims of the sources still hold (part of CI)
	$(CARGO) build --quiet --locked --workspace --examples --bin fulmar-lab
	target/debug/fulmar-lab run $(SAMPLE:%=experiments/%.toml) --sample --again --out target/sample
	target/debug/fulmar-lab report target/sample --strict

# A quick one is no result: it stays out of docs.
BENCHMARK = $(if $(filter --quick,$(ARGS)),results,docs/results)
benchmark: toolchain ## auto on every path, with its aims, beside others: docs/results/auto.md (make benchmark [ARGS=--quick])
	$(LAB) run experiments/auto/*.toml --skip-missing $(ARGS)
	$(LAB) random --paths 500 $(filter --quick,$(ARGS)) --page $(BENCHMARK)/random.md
	$(LAB) report --out $(BENCHMARK)

# Programs as they are, in real time: hours. What is not installed is named and left out; an interrupted sweep goes on where it was.
applications: toolchain release lab ## nginx, ssh, git and others over Fulmar, CUBIC and BBR: docs/results/applications.md (make applications [ARGS="--quick"])
	target/release/fulmar-lab applications --page $(if $(filter --quick,$(ARGS)),results,docs/results)/applications.md $(ARGS)

# JSON=file also writes the numbers there. A workspace of its own: what it compares with is no dependency of the project.
bench-codes: toolchain ## speed of the erasure codes on this machine: make bench-codes [JSON=file]
	$(CARGO) run --release --locked --manifest-path crates/fulmar-fec/compare/Cargo.toml -- $(if $(JSON),--json "$(JSON)")

# ARGS="--quick" measures one connection only; "--rounds 9" and "--seconds 5" measure longer.
bench-loopback: toolchain ## Fulmar beside quinn, s2n-quic, quiche on loopback: make bench-loopback [JSON=file] [ARGS="--quick"]
	CARGO="$(CARGO)" scripts/bench-loopback $(if $(JSON),--json "$(JSON)") $(ARGS)

.PHONY: bench-bindings
bench-bindings: toolchain ## C and Python beside Rust on loopback: make bench-bindings [JSON=file] [ARGS="--quick"]
	CARGO="$(CARGO)" scripts/bench-bindings $(if $(JSON),--json "$(JSON)") $(ARGS)

bench-instructions: toolchain ## instructions per packet, against crates/fulmar-world/instructions.txt (needs valgrind)
	CARGO="$(CARGO)" scripts/instructions $(ARGS)

# What `.ci/run` does of it: nothing where valgrind cannot be had. Not of `make test`: it needs the only optimised build of all, and
# judges nothing on a machine other than the one that the figures are of.
.PHONY: test-instructions
test-instructions: toolchain
	CARGO="$(CARGO)" scripts/instructions --if-possible

# Processes, loopback and relays; with root a full disk as well, with libfaketime a clock that jumps. What happens is drawn from SEED.
siege: toolchain ## the real server besieged: make siege [MINUTES=30] [SEED=1]
	ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || apt-get install -y -q libfaketime || true
	$(CARGO) build --release --locked -p fulmar-cli -p fulmar-siege
	target/release/fulmar-siege --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1)

.PHONY: c c-test c-header
c: toolchain ## the library for C, optimised: target/release/libfulmar_c.so and .a, fulmar.h and fulmar.pc in target/c
	$(CARGO) rustc --release --locked -p fulmar-c --crate-type cdylib
	$(CARGO) rustc --release --locked -p fulmar-c --crate-type staticlib
	scripts/c-package target/release target/c

c-test: toolchain ## the C and C++ programs of crates/fulmar-c, compiled and run (under valgrind and sanitizers where there are some)
	$(CARGO) test --workspace --locked --test c --test header

c-header: toolchain ## crates/fulmar-c/include/fulmar.h anew, from the sources
	FULMAR_C_HEADER=write $(CARGO) test --workspace --locked --test header

.PHONY: python-test wheels
python-test: toolchain ## the package for Python, built with maturin in a virtual environment, and its tests
	scripts/python-test

wheels: toolchain ## wheels of it for Linux, glibc and musl, in target/wheels; this machine's is tried: make wheels [TARGETS="..."]
	scripts/wheels $(TARGETS)

fuzz-quick: toolchain ## every fuzz target for a short time: make fuzz-quick [SECONDS_EACH=20]
	CARGO="$(CARGO)" scripts/fuzz-quick $(or $(SECONDS_EACH),20)

release: toolchain ## the optimised program, target/release/fulmar, and the library of `fulmar run` beside it
	$(CARGO) build --release --locked -p fulmar-cli -p fulmar-preload

deb: release ## a package for Debian, with man page, completions and systemd units, in target/debian
	scripts/deb target/release/fulmar target/debian

# A quarter of an hour on two cores, the first time. TARGETS="aarch64-unknown-linux-musl" and others: docs/platforms.md.
.PHONY: dist dist-mini reproducible packages check-platforms cross-test
dist: toolchain ## one static program for any Linux, packed in target/dist, and tried: make dist [TARGETS="..."]
	scripts/dist $(TARGETS)
	$(if $(TARGETS),,scripts/dist-test target/x86_64-unknown-linux-musl/release/fulmar)

dist-mini: toolchain ## a small one for routers: make dist-mini [TARGETS="..."]
	scripts/dist --mini $(TARGETS)
	$(if $(TARGETS),,scripts/dist-test target/x86_64-unknown-linux-musl/mini/fulmar)

reproducible: toolchain ## whether two builds of this commit are the same archive (the small program): make reproducible [TARGETS="..."]
	scripts/reproducible --mini $(TARGETS)

# Scoop wants x86_64-pc-windows-gnu; Arch, Homebrew and OpenWrt take what there is.
packages: toolchain ## from these: deb, rpm, container image, and what Arch, Homebrew, Scoop and OpenWrt read, in target/dist: make packages [TARGETS="..."]
	scripts/dist x86_64-unknown-linux-musl $(TARGETS)
	scripts/dist-test target/x86_64-unknown-linux-musl/release/fulmar
	scripts/dist --mini x86_64-unknown-linux-musl $(filter-out %-windows-gnu,$(TARGETS))
	scripts/dist-test target/x86_64-unknown-linux-musl/mini/fulmar
	scripts/deb target/x86_64-unknown-linux-musl/release/fulmar target/dist
	scripts/rpm target/x86_64-unknown-linux-musl/release/fulmar target/dist
	scripts/image target/x86_64-unknown-linux-musl/release/fulmar target/dist/fulmar-image.tar
	scripts/manifests target/dist

check-platforms: toolchain ## whether library and program compile for other systems: make check-platforms [TARGETS="..."]
	scripts/check-platforms $(TARGETS)

cross-test: toolchain ## tests of the crates without I/O for other processors, in an emulator: make cross-test [TARGETS="..."]
	scripts/cross-test $(TARGETS)

lab: toolchain ## the laboratory, target/release/fulmar-lab (docs/lab.md)
	$(CARGO) build --release --locked -p fulmar-lab

# Without npm the page stays unbuilt, and the program says how to build it.
operator: toolchain ## the operator's desk on this machine, as a web page (docs/operator.md): make operator [ARGS="--no-open"]
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory dashboard; fi
	$(CARGO) run --release --locked -p fulmar-lab -- operator $(ARGS)

dashboard: dashboard/dist/index.html ## the page of the operator's desk, dashboard/dist (installs Node if it is missing)

dashboard/dist/index.html: $(shell find dashboard/src dashboard/public dashboard/*.* -type f 2>/dev/null)
	scripts/dashboard build

dashboard-test: toolchain dashboard ## the page with the real program in Chromium (installs Node and Chromium if they are missing)
	CARGO="$(CARGO)" scripts/dashboard test

dashboard-pictures: toolchain dashboard ## the same, and the pictures of docs/operator.md anew
	PICTURES="$(CURDIR)/docs/operator" CARGO="$(CARGO)" scripts/dashboard test

# Root, or user namespaces, and an idle machine. What is not installed is named and left out. It prints the table; `fulmar-lab
# report --out docs/results` would write it there, and judge everything else anew.
comparison-real: release lab ## the README's table, in real time: Fulmar, hysteria, quinn, kcptun, TCP, one driver
	target/release/fulmar-lab run experiments/auto/auto-peers.toml --skip-missing

comparison: lab ## Fulmar's row of the README's comparison, in virtual time
	scripts/comparison

# `fulmar run` finds its library beside the program or in ../lib; it exists on Linux only.
install: toolchain ## install the program into ~/.cargo/bin, and the library of `fulmar run` into ~/.cargo/lib
	$(CARGO) install --locked --profile dist --path crates/fulmar-cli
	$(CARGO) build --release --locked -p fulmar-preload
	@library=target/release/libfulmar_preload.so; \
	    ! test -f $$library || install -D -m 644 $$library "$${CARGO_HOME:-$$HOME/.cargo}/lib/fulmar/libfulmar_preload.so"

# The tests send real programs through tunnels.
.PHONY: test-programs
test-programs:
	@scripts/test-programs

# A fresh machine may lack Rust or the C compiler that the TLS library needs; say what to do, or do it.
.PHONY: toolchain
toolchain:
	@scripts/toolchain
