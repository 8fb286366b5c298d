# The newcomer's commands. `make` alone lists them.
# Any from 3.11 to 3.14: make setup PYTHON=/path/to/python. Unless given, workflow/envs/find_python.sh chooses.
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Named by params.yaml unless given: make run GRID=cub50
GRID ?=
# A name, whatever is in it: the shell takes it from its environment.
export GRID
CHOICE := $(if $(GRID),--grid "$$GRID")
SHARED := $(or $(BGBIAS_SHARED_DATA),../shared/data)
# One test process more than cores, as some tests wait, up to four; tests of one file stay together, and files in the order of
# tests/conftest.py, not by their number of tests, of which slow files have few. Each process computes with one thread.
PROCESSES := $(shell expr 1 + $$(getconf _NPROCESSORS_ONLN))
# Folders of tests that start no programs, under a minute together; training, masks and study would be another one.
FAST := attacks attribution backgrounds datasets evaluation files ground images photos results segmentation toy properties/test_layers.py
PYTEST := OMP_NUM_THREADS=1 pytest --numprocesses=$(PROCESSES) --maxprocesses=4 --dist=loadfile --no-loadscope-reorder
export PATH := $(abspath $(BIN)):$(PATH)
export PYTHONPATH := $(abspath src)
# Images for containers tell Python not to keep what it compiled: every node would compile its libraries again.
export PYTHONDONTWRITEBYTECODE :=
# uv trusts what pip and curl trust, also a company's own certificates, where the system keeps a list of them.
export UV_SYSTEM_CERTS ?= $(if $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/cert.pem /etc/ssl/cert.pem),1,0)

.DEFAULT_GOAL := help
.PHONY: help setup cluster demo slurm-demo run resume record restore status report ui screenshots test test-fast test-all bench bench-gpu check lock rulegraph schema toy-masker clean

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY)  ## make the environment from the hashed lock

# uv comes first, hash-checked by pip; it installs the rest, hash-checked too. Then bgbias itself, as it stands here: an edit of
# src/ needs no other installation. Its dependencies are in the lock, and setuptools, which builds it, is too.
$(READY): requirements.lock requirements-uv.lock pyproject.toml
	test -x $(BIN)/python || { python=$$(workflow/envs/find_python.sh $(PYTHON)) && "$$python" -m venv $(VENV); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

cluster: $(READY) requirements-cluster.lock  ## add what SLURM and Kubernetes take (docs/clusters.md)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements-cluster.lock

demo: $(READY)  ## photos to tables on the embedded dataset: no GPU, four to twelve minutes on two cores
	snakemake --cores all --config grid=demo --logger bgbias
	@python -m bgbias show --grid demo

# As many threads as in `make demo`, so that the tables are the same.
slurm-demo: cluster  ## the demo through SLURM: a cluster's, or one of a single node started here (root)
	sinfo >/dev/null 2>&1 || workflow/slurm/single_node.sh start
	snakemake --workflow-profile profiles/slurm --set-threads train=1 evaluate=1 --config grid=demo --quiet rules
	@python -m bgbias show --grid demo

run: $(READY)  ## photos to tables on the grid that params.yaml names (or GRID=cub50)
	snakemake --cores all --logger bgbias $(if $(GRID),--config grid="$$GRID")
	@python -m bgbias show $(CHOICE)

resume: $(READY)  ## go on after anything was killed (the same grid, or GRID=cub50)
	@python -m bgbias resume $(CHOICE)

restore: $(READY)  ## after git clone: fetch what DVC keeps, and verify it against the plan
	dvc pull --allow-missing
	@python -m bgbias restore $(CHOICE)

record: $(READY)  ## after snakemake: let DVC remember what was made, if all of it is current
	@python -m bgbias status --check
	dvc commit --force

status: $(READY)  ## what is current, what is stale and why
	@python -m bgbias status $(CHOICE)

report: $(READY)  ## report.html of the finished grid, which needs no other file (or GRID=cub50)
	@python -m bgbias report $(if $(GRID),"$$GRID")

# A folder is called docs, too; and mkdocs-material's warning about the future of mkdocs is no defect of a page.
.PHONY: docs publish docs-demo docs-audit docs-negatives docs-masker docs-backgrounds docs-uncertainty docs-settings docs-sensitivity docs-clarity docs-mask-range docs-maskers docs-public-models docs-validity
docs: $(READY)  ## build the documents as a site in site/, without network; open site/index.html (its search needs a server: python -m http.server -d site)
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

publish: $(READY)  ## put the finished report of GRID=demo into docs/results, and its numbers into README.md (GRID left out: README.md alone)
	@python -m bgbias publish $(CHOICE)

docs-demo:  ## the same of a finished `make demo`
	@$(MAKE) --no-print-directory publish GRID=demo

docs-masker: $(READY)  ## judge fine-tuning on the shared hand masks (minutes), for docs/results/masker_finetuning.md
	python docs/results/masker_from_report.py data/report/hand_masks $(SHARED)/hand_masks

docs-clarity: $(READY)  ## measure how well a mask's clarity tells that it is wrong (minutes), for docs/masks.md
	python docs/results/mask_clarity.py $(SHARED)

docs-mask-range: $(READY)  ## ask whether perfect masks lie in the range that two segmentation models leave open (minutes; after docs-maskers), for docs/masks.md
	python docs/results/mask_range.py $(SHARED)

docs-maskers: $(READY)  ## measure published segmentation models on the shared hand masks (minutes; IMGLY names the folder of IS-Net's pieces), for docs/masks.md
	python docs/results/maskers.py $(SHARED) $(IMGLY)

docs-public-models: $(READY)  ## audit fourteen published networks on birds, groceries and products (hours), for docs/results/public_models.md
	python docs/results/public_models.py $(SHARED)

docs-validity: $(READY)  ## audit published networks on products of two visits to shops (three hours), for docs/results/validity.md
	python docs/results/validity_audits.py $(SHARED)

docs-backgrounds: $(READY)  ## look for objects in the paper's backgrounds and in photos of things (minutes), for docs/results/backgrounds.md
	python docs/results/backgrounds_from_proposal.py $(SHARED)

docs-uncertainty: $(READY)  ## simulate intervals and stars, split classes in halves, train again, for docs/methods.md (after `make demo`; an hour)
	snakemake --cores all --config grid=repeats --quiet rules --until evaluate
	python docs/uncertainty

docs-settings: $(READY)  ## train with candidates for the settings of `cub50`, judged on validation classes, for docs/results/cub50.md (after `make run GRID=cub50`; an hour)
	python docs/settings cub50

docs-sensitivity: $(READY)  ## see the toys of GRID=controls with other masks, for docs/results/controls.md (after `make run GRID=controls`; minutes)
	python docs/sensitivity

docs-negatives: $(READY)  ## show negatives of no class of groceries' photos, in docs/negatives.png
	python docs/negatives.py $(SHARED)

docs-audit: $(READY)  ## show an audit's page of groceries' photos, in docs/audit.png (minutes; needs Chromium)
	PYTHONPATH=$(PYTHONPATH):tests/support python docs/audit_page.py $(SHARED)

ui: $(READY)  ## compare models in the MLflow UI: prints the address of the grid that ran last (or GRID=cub50)
	@python -m bgbias ui $(if $(GRID),"$$GRID")

screenshots: $(READY)  ## take docs/mlflow/*.png of MLflow's pages here (needs Chromium; the demo, or GRID=cub50)
	PYTHONPATH=$(PYTHONPATH):tests/support python docs/mlflow/take_screenshots.py $(if $(GRID),"$$GRID")

# A test that hangs says where, and ends (pyproject.toml).
test: $(READY)  ## the tests, without the slow ones, the shared photos and SLURM
	$(PYTEST) -m "not shared and not slurm and not slow"

test-fast: $(READY)  ## what needs no process beside its own, in a minute on two cores: no Snakemake, DVC, MLflow, Chromium
	$(PYTEST) -m "not shared and not slurm and not slow and not workflow and not gpu" $(FAST:%=tests/%)

test-all: cluster  ## all tests, also the slow ones, those on SLURM and those on the shared photos (BGBIAS_SHARED_DATA or ../shared/data)
	$(PYTEST) -rs -m "not slurm"
	pytest -rs -m slurm

# Peers are for these two commands alone; what they bring changes no package of the environment.
bench: $(READY) requirements-bench.lock  ## measure speed on this machine against what people would run instead
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements-bench.lock
	python -m benchmarks --write docs/speed.md

bench-gpu: $(READY) requirements-bench.lock  ## the same on a GPU
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements-bench.lock
	python -m benchmarks --device cuda --write docs/speed.md

check: $(READY)  ## formatting, lint, types; format and lint of the workflow; README's numbers
	ruff format --check src tests benchmarks workflow docs
	ruff check src tests benchmarks workflow docs
	mypy
	snakefmt --check Snakefile workflow
	snakemake --lint
	python -m bgbias publish --check

rulegraph: $(READY)  ## draw the rules into docs/workflow.md
	python workflow/rulegraph.py

schema: $(READY)  ## write the schema of params.yaml from the models that check it
	python workflow/schemas/from_models.py

toy-masker: $(READY)  ## train the small U2-Net-p that the demo uses
	python -m bgbias toy-masker

lock: $(READY)  ## resolve requirements again and rewrite the locks and the conda environment
	uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 requirements.in -o requirements.lock
	uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 requirements-uv.in -o requirements-uv.lock
	uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 requirements-cluster.in -o requirements-cluster.lock
	uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 requirements-bench.in -o requirements-bench.lock
	python workflow/envs/from_lock.py

clean:  ## delete what runs made (data/raw stays)
	rm -rf data/work data/runs data/report mlflow.db mlartifacts .snakemake
