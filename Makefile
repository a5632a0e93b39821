# Thin on purpose: every target is one script or one CMake preset (CMakePresets.json).
PRESET ?= release

.DEFAULT_GOAL := help
.PHONY: help run gui test check bench format lint fresh-check

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile
	@echo "PRESET=$(PRESET) (cmake --list-presets shows all)"

run:  ## train a small model for real, simulate it, compare; then build the rest
	@scripts/install-dependencies
	@scripts/quickstart $(PRESET)

gui:  ## build and start the desktop application (FILE=scenario, run folder or trace)
	@scripts/install-dependencies gui
	@scripts/build $(PRESET) lockstep-gui
	@build/$(PRESET)/bin/lockstep-gui $(or $(FILE),scenarios/schedules/1f1b-p4-m8.toml)

test:  ## build and run the test suite, device code included where a CUDA toolkit is found
	@scripts/install-dependencies
	@LOCKSTEP_CUDA=$${LOCKSTEP_CUDA:-ON} scripts/build $(PRESET)
	@scripts/run-tests $(PRESET)

check:  ## build and run the tests of the folders in which something changed
	@scripts/check $(PRESET)

bench:  ## build and run the benchmarks (always with the bench preset)
	@scripts/install-dependencies bench
	@scripts/build bench
	@scripts/run-benchmarks build/bench

format:  ## rewrite the sources with clang-format 14
	@scripts/install-dependencies format
	@scripts/format --write

lint:  ## include rule, formatting, clang-tidy 14 (long)
	@scripts/install-dependencies format lint
	@scripts/check-includes
	@scripts/format --check
	@scripts/lint

fresh-check:  ## the README's two commands inside a minimal Debian 12 (root, network)
	@scripts/fresh-check
