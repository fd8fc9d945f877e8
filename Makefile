# Two commands matter: `make up` gives a running platform, `make test` proves it. The rest is for those who work on it.
unexport PYTHONDONTWRITEBYTECODE
SHELL := /bin/sh
V := .venv/bin
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: ## the virtual environment, nothing else
	@tools/setup runtime

up: setup ## start Windlass on this machine
	@$(V)/windlass up $(ARGS)

COMPILED := $(CURDIR)/build/compiled
compiled: setup-dev
	@$(V)/python tools/compile $(COMPILED)

up-compiled: compiled ## the same with the part that decides compiled: for large queues; needs a C compiler
	@PYTHONPATH=$(COMPILED) $(V)/windlass up $(ARGS)

setup-dev:
	@tools/setup dev

parts: setup-dev ## the real servers the tests use (apt, when root on Debian)
	@tools/parts

WORKERS ?= 2
test: parts kube ## the whole suite, on real parts, by two workers; WORKERS=0 is one process
	@$(V)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

test-compiled: compiled ## the core's tests and the simulation, on the compiled part
	@PYTHONPATH=$(COMPILED) $(V)/python -m pytest tests/core tests/simulation $(ARGS)

SEEDS ?= 0..100
simulate: setup-dev ## a soak: the control plane on virtual time, SEEDS=0..1000
	@$(V)/python -m tests.simulation.replay --seeds $(SEEDS) --jobs 2

check: setup-dev ## format, lint, types, import rule, dependencies
	@$(V)/ruff format --check .
	@$(V)/ruff check .
	@$(V)/mypy
	@$(V)/lint-imports --no-cache
	@$(V)/deptry .

format: setup-dev ## put the code in shape
	@$(V)/ruff format .
	@$(V)/ruff check --fix .

kube: setup-dev ## build a Kubernetes node from its Go modules, once (ten to twenty minutes), for the tests
	@$(V)/python -m tests.kube.binaries

test-soak: parts ## the long tests beside those on Kubernetes: more kills, more jobs, more tenants
	@$(V)/python -m pytest -m soak --ignore tests/kube $(ARGS)

test-kube: parts kube ## the long tests on Kubernetes: every crash point, a hundred jobs
	@$(V)/python -m pytest tests/kube -m "soak or not soak" $(ARGS)

demo: setup ## a guided minute: three jobs, their logs, their end
	@$(V)/python -m examples.demo

bench: parts ## figures, as ratios to the floor measured in the same run
	@$(V)/python -m bench $(ARGS)

bench-slurm: parts ## Slurm beside us, in one run (apt, when root on Debian)
	@tools/parts rivals
	@$(V)/python -m bench.slurm

bench-kube: parts kube ## plain batch Jobs of Kubernetes beside ours, in one run
	@$(V)/python -m bench.kube

bench-swarm: parts ## Docker Swarm beside us, in one run
	@$(V)/python -m bench.swarm

.PHONY: kube test-kube test-soak help setup setup-dev up compiled up-compiled test-compiled parts test simulate check format demo bench bench-slurm bench-swarm bench-kube
