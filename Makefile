# netfw: `make help` says what there is.
# The distribution's interpreter, where it is new enough: it is built with optimization by profile,
# which others in PATH (pyenv's, say) often are not, and it is the one that operators have.
PYTHON ?= $(shell /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
    && echo /usr/bin/python3 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# `make test` gives --short to its steps: they leave out the tests marked nightly.
SHORT ?=
PYTEST := $(BIN)/pytest $(SHORT)
# Tests start hundreds of agents; each would compile all of netfw again.
unexport PYTHONDONTWRITEBYTECODE
# Processes of pytest-xdist.  `make test` runs its steps side by side: more would only collect the tests again.
WORKERS ?= 2
STEP = @printf '\n\033[1m== %s\033[0m\n' "$(1)"

.PHONY: help demo test nightly unit unit-slow server lowest pythons lint types imports lab lab-services conformance conformance-values conformance-real conformance-services lab-server system system-server system-dhcp system-l3 system-l3-faults system-l2 system-l2-faults system-releases upgrade tempest fuzz samples tutorials tutorials-short spec spec-short docs bench clean packages demo-packages deb packaging containers packaging-tools scale soak record api-docs
.DEFAULT_GOAL := help

help: ## this text
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: demo-packages $(READY) ## see netfw at work: hosts, agents, a server, leases, metadata, routers; does not touch the network of this machine
	@$(BIN)/netfw demo

# The longest first; those that measure are last, and those that only compute run beside the others.
STEPS = conformance-values:0 lab:2 conformance-services:2 lint imports lab-server lab-services conformance-real \
    system-server system samples system-l2 system-l3 system-dhcp tutorials-short \
    system-l2-faults:last system-l3-faults:last $$($(BIN)/python tools/previous_release.py --step) \
    types:low unit:low unit-slow:low server:low docs:low spec-short:low

test: packages $(READY) ## everything, in short forms: lint, types, imports, unit, server, conformance, lab, system, samples, docs
	@WORKERS=0 SHORT=--short $(BIN)/python tools/steps.py $(STEPS)

nightly: packages $(READY) ## make test with all variants: databases, firewalls, every broken driver, lowest versions; an hour
	@WORKERS=0 $(BIN)/python tools/steps.py $(STEPS:tutorials-short=tutorials) lowest:low

unit: $(READY) ## tests of values: no root, under 30 seconds
	$(call STEP,unit tests)
	@$(PYTEST) -q -n $(WORKERS) --dist worksteal -m "not hypothesis and not slow" tests/unit

unit-slow: $(READY) ## the tests of values that take long, property-based ones among them: no root, a minute
	$(call STEP,slow unit tests)
	@$(PYTEST) -q -n $(WORKERS) --dist worksteal -m "hypothesis or slow" tests/unit

server: $(READY) ## the server's parts on SQLite: no root, a minute
	$(call STEP,the server on SQLite)
	@$(PYTEST) -q -n $(WORKERS) tests/server

lowest: packages $(READY) ## tests of values, OVSDB and netlink with the lowest versions of what netfw depends on
	$(call STEP,tests with the lowest versions)
	@tools/lowest-versions .netfw/lowest
	@.netfw/lowest/bin/pytest -q -n $(WORKERS) --dist worksteal -m "not hypothesis" tests/unit
	@.netfw/lowest/bin/pytest -q --sandbox tests/lab/ovs/ovsdb tests/lab/linux/ip

pythons: ## tests of values and of the server with other Pythons: of this machine, or fetched from Debian; VERSIONS="3.13 3.14"
	$(call STEP,tests with other Pythons)
	@tools/other-pythons .netfw/pythons $(VERSIONS)

lint: $(READY) ## style, formatting, spec copies, names and prose, public interfaces
	$(call STEP,lint)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python tools/spec_copy.py
	@$(BIN)/python tools/vocabulary.py
	@$(BIN)/python tools/public_interfaces.py

types: $(READY) ## mypy --strict on netfw, netfw_drivers, benchmarks and the embedding samples; names and calls in tests
	$(call STEP,types)
	@$(BIN)/mypy $(addprefix -p ,netfw netfw_drivers benchmarks $(addprefix tests.,system server unit lab conformance))
	@$(BIN)/mypy samples/embedding

imports: $(READY) ## who may import whom
	$(call STEP,import contracts)
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python tools/pure_modules.py

lab: packages $(READY) ## toolboxes and the lab on real kernels and switches
	$(call STEP,lab tests)
	@$(PYTEST) -q --sandbox -n 2 --dist loadfile -m "not services and not server" tests/lab

lab-services: packages $(READY) ## DHCP and metadata, drivers and agents, on real kernels and programs
	$(call STEP,lab tests of DHCP and metadata)
	@$(PYTEST) -q --sandbox -m services tests/lab

lab-server: packages $(READY) ## the server's parts on real databases, sockets and brokers
	$(call STEP,lab tests of the server)
	@$(PYTEST) -q --sandbox -m server tests/lab

conformance: conformance-values conformance-real conformance-services ## the suites that vendors run, for our own drivers and for broken ones

conformance-values: $(READY) ## of these, the fakes and the broken drivers
	$(call STEP,conformance suites: fakes and broken drivers)
	@$(PYTEST) -q -n $(WORKERS) --dist worksteal -m fakes tests/conformance

conformance-real: packages $(READY) ## of these, the drivers on real components
	$(call STEP,conformance suites: drivers on real components)
	@$(PYTEST) -q --sandbox -m "not fakes and not services" tests/conformance

conformance-services: packages $(READY) ## of these, DHCP, metadata, sources and transports
	$(call STEP,conformance suites: DHCP, metadata, sources and transports)
	@$(PYTEST) -q --sandbox -n 2 --dist loadfile -m services tests/conformance

system: packages $(READY) ## netfw as a user meets it: commands, demo, packaging
	$(call STEP,system tests)
	@$(PYTEST) -q tests/system $(addprefix --ignore tests/system/,l2 server dhcp l3 releases tutorials)

system-server: packages $(READY) ## a real server with real clients and agents: openstack, openstacksdk, two hosts
	$(call STEP,server with clients and agents)
	@$(PYTEST) -q --sandbox tests/system/server

system-dhcp: packages $(READY) ## from a call of the API to a lease and metadata on two hosts, under faults: about three minutes
	$(call STEP,DHCP and metadata on two hosts)
	@$(PYTEST) -q --sandbox tests/system/dhcp

system-l3: packages $(READY) ## routers on two hosts, from a file and from a call of the API to packets
	$(call STEP,routers on two hosts)
	@$(PYTEST) -q --sandbox -m "not exclusive" tests/system/l3

system-l3-faults: packages $(READY) ## a router of the API under faults: not one packet of others may be lost
	$(call STEP,routers under faults)
	@$(PYTEST) -q --sandbox -n 2 --dist loadfile -m exclusive tests/system/l3

system-l2: packages $(READY) ## the L2 agent on three hosts: networks of all kinds, ports that come, change and move
	$(call STEP,L2 agent on three hosts)
	@$(PYTEST) -q --sandbox -m "not exclusive" tests/system/l2

system-l2-faults: packages $(READY) ## the L2 agent under faults: not one packet of others may be lost
	$(call STEP,L2 agent under faults)
	@$(PYTEST) -q --sandbox -m exclusive tests/system/l2

system-releases: packages $(READY) ## upgrade from the previous release and back, with one host: not one packet may be lost
	$(call STEP,upgrade and rollback of one host)
	@$(BIN)/python tools/previous_release.py
	@$(PYTEST) -q --sandbox tests/system/releases/test_upgrade_of_one_host.py

upgrade: packages $(READY) ## the long form: two hosts, router, leases, PostgreSQL; agents one after another, about five minutes
	$(call STEP,upgrade and rollback of two hosts)
	@$(BIN)/python tools/previous_release.py
	@NETFW_LONG=1 $(PYTEST) -q --sandbox -o log_cli=true --log-cli-level=INFO tests/system/releases/test_upgrade.py

scale: packages $(READY) ## the files of samples/scale with PostgreSQL, RabbitMQ, a server of several processes and an agent
	$(call STEP,the files for a large installation)
	@$(PYTEST) -q --sandbox tests/scale

soak: packages $(READY) ## routers and ports come and go under faults, and nothing grows: make soak [MINUTES=10]
	$(call STEP,soak test)
	@NETFW_SOAK_MINUTES=$(or $(MINUTES),10) $(PYTEST) -q --sandbox -o log_cli=true --log-cli-level=INFO tests/soak

record: demo-packages $(READY) ## record the demo: docs/pictures/demo.svg and docs/demo.md
	$(call STEP,recording of the demo)
	@$(BIN)/python tools/record_demo.py

tempest: packages $(READY) ## the network API tests of Tempest and neutron-tempest-plugin with real agents, about five minutes
	$(call STEP,Tempest)
	@$(BIN)/python -m tests.tempest.run

fuzz: packages $(READY) ## the long forms: policies, packets, histories, kills and API requests by chance, for more than an hour
	$(call STEP,property-based firewall tests)
	@NETFW_LONG=1 $(PYTEST) -q --sandbox --timeout 1800 tests/conformance/firewall/test_ovs_firewall.py \
	    tests/conformance/firewall/test_iptables_firewall.py tests/conformance/firewall/test_nftables_firewall.py -k "Property or nothing_leaks"
	$(call STEP,property-based histories of state sources)
	@NETFW_LONG=1 $(PYTEST) -q --sandbox --timeout 1800 tests/conformance/state_source/test_file_source.py \
	    tests/conformance/state_source/test_remote_source.py tests/lab/server/state_source/test_database_source.py -k any_history
	$(call STEP,L2 agent killed at 300 random points)
	@NETFW_SEEDS=25 $(PYTEST) -q --sandbox tests/system/l2/test_l2_faults.py -k again_and_again
	$(call STEP,L3 agent killed at 200 random points)
	@NETFW_SEEDS=25 $(PYTEST) -q --sandbox tests/system/l3/test_l3_agent_kills.py
	$(call STEP,DHCP agent killed at random points)
	@NETFW_SEEDS=25 $(PYTEST) -q --sandbox tests/system/dhcp/test_dhcp_faults_by_api.py -k at_any_moment
	$(call STEP,property-based values)
	@NETFW_LONG=1 $(PYTEST) -q -n 2 --timeout 1800 tests/unit
	$(call STEP,property-based API requests: NETFW_API_SECONDS=3600)
	@NETFW_LONG=1 $(PYTEST) -q tests/server/api/test_api_properties.py
	$(call STEP,API requests drawn from the OpenAPI document)
	@NETFW_LONG=1 $(PYTEST) -q --sandbox tests/system/server/test_openapi.py

samples: packages $(READY) ## the samples, installed and run as their readers would
	$(call STEP,samples)
	@$(PYTEST) -q --sandbox samples

tutorials: packages $(READY) ## the tutorials of docs/tutorials and the first examples, executed as their readers would
	$(call STEP,tutorials)
	@$(PYTEST) -q --sandbox tests/system/tutorials

tutorials-short: packages $(READY) ## of these, the first examples
	$(call STEP,first examples)
	@$(PYTEST) -q --sandbox tests/system/tutorials -k "not test_tutorials"

spec-short: $(READY) ## the items of docs/spec that make test tries on real components
	$(call STEP,items of docs/spec that make test tries)
	@$(BIN)/python tools/spec.py --short

spec: $(READY) ## coverage of docs/spec: each item with the tests that prove it; runs those that never ran
	@$(BIN)/python tools/spec.py

docs: $(READY) ## build the documentation and the man pages; a warning is an error
	$(call STEP,documentation)
	@$(BIN)/python tools/generate_docs.py --check
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@$(BIN)/python tools/man_pages.py docs/_build/man

deb: packaging-tools $(READY) ## build the Debian package in dist/
	$(call STEP,Debian package)
	@rm -f dist/netfw_*.deb
	@tools/build-deb dist

packaging: deb ## the Debian package on a machine with systemd: units, privileges, watchdog, upgrade, purge; and agents with their units' privileges
	$(call STEP,the package on a machine)
	@NETFW_DEB=dist $(PYTEST) -q tests/packaging
	$(call STEP,agents with the privileges of their units)
	@NETFW_UNIT_PRIVILEGES=1 $(PYTEST) -q --sandbox tests/system/dhcp/test_dhcp_without_server.py \
	    tests/system/l3/test_l3_without_server.py tests/system/l3/ha/test_l3_ha_without_server.py

containers: deb ## the images and the compose file: a server, PostgreSQL, RabbitMQ and two hosts, in a network of their own
	$(call STEP,containers)
	@for base in machine services; do tools/make-base .netfw/packaging $$base; done
	@tools/in-own-network $(PYTEST) -q tests/containers

api-docs: $(READY) ## the documentation with the whole Python API reference, a minute and a half more: docs/_build/api
	$(call STEP,documentation with the Python API)
	@$(BIN)/sphinx-build -q -W --keep-going -t api -b html docs docs/_build/api

bench: packages $(READY) ## figures against the raw tools, as ratios of one run: make bench [ONLY=core]
	@$(BIN)/python -c 'import matplotlib' 2>/dev/null || $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[bench]'
	@$(BIN)/python -m benchmarks $(ONLY)

clean: ## remove what make made, the environment too
	rm -rf $(VENV) build dist docs/_build .netfw .mypy_cache .ruff_cache .pytest_cache .import_linter_cache *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

packages:
	@tools/install-packages

demo-packages:
	@tools/install-packages demo

packaging-tools:
	@tools/install-packages packaging

$(READY): setup.cfg pyproject.toml entry_points.txt
	@command -v $(PYTHON) >/dev/null || { echo "netfw needs Python 3.11 or later as $(PYTHON)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "netfw needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version); try: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || tools/install-packages
	@echo "Preparing $(VENV): netfw and the tools it is checked with (about a minute the first time) ..."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); }
	@rm -rf netfw.egg-info  # of an earlier release; it hides what is installed now
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev,docs]'
	@touch $(READY)
