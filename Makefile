# Every target sets up what it needs, in .venv and build/, and may be the first that you run.
# Needed beforehand: Linux, Python 3.10 to 3.12 with its venv module, g++ 9 or newer, make.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
# Tools of the virtual environment come first; nothing of the user's other Python environments leaks in.
export PATH := $(CURDIR)/$(BIN):$(PATH)
unexport PYTHONPATH PYTHONHOME
export PIP_DISABLE_PIP_VERSION_CHECK := 1

PACKAGE_SOURCES := pyproject.toml setup.py CMakeLists.txt \
  $(shell find cmake kernels aclnn -type f -not -path '*/__pycache__/*')
C_FILES = $(shell git ls-files '*.c' '*.cc' '*.h')
FUZZ_SECONDS ?= 600

.PHONY: help demo test bench report pypto pyptocosts lint format sanitize fuzz aarch64 aarch64-tools wheel clean distclean

help:  ## show this list
	@sed -n 's/^\([a-z0-9]*\):.*## /  make \1\t/p' Makefile | expand -t 18
	@echo "  PYTHON=/path/to/python3 chooses the Python of the virtual environment."

demo: $(STAMPS)/demo  ## upscale a photograph with ConvTanh beside stock MindSpore
	@$(BIN)/python samples/python/super_resolution/run.py

test: $(STAMPS)/test  ## build and run the native tests, then the Python tests
	@$(call native_tests,native-tests,,)
	$(BIN)/python -m pytest

RESULT ?= build/bench/run
bench: $(STAMPS)/bench  ## compare with other libraries; writes $(RESULT).json, .csv and .html
	@$(BIN)/ms-convtanh bench --output $(RESULT)
	@$(BIN)/ms-convtanh bench --training --output $(RESULT)-training

report: $(STAMPS)/bench  ## write the reports in docs/ from benchmarks/runs/*.json
	@$(BIN)/python benchmarks/report.py

pypto: $(STAMPS)/test $(STAMPS)/pypto  ## verify the PyPTO programs in the vendor's compiler (loads PyTorch)
	$(BIN)/python -m pytest tests/ascend/test_pypto_programs.py

pyptocosts: $(STAMPS)/pypto  ## renew the cost table of docs/ASCEND.md (about 15 minutes)
	@$(BIN)/python benchmarks/pypto_costs.py

lint: $(STAMPS)/lint  ## check formats, style, spelling and types
	@echo "lint: ruff, clang-format, codespell, mypy"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/clang-format --dry-run -Werror $(C_FILES) || { echo "lint: make format mends the layout"; exit 1; }
	@! grep -nE '^.{121,}' $(C_FILES) || { echo "lint: these lines have more than 120 columns"; exit 1; }
	@$(BIN)/codespell $$(git ls-files)
	@$(BIN)/mypy --no-error-summary

format: $(STAMPS)/lint  ## rewrite the sources in the formats that lint checks
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .
	@$(BIN)/clang-format -i $(C_FILES)

sanitize: $(STAMPS)/native  ## run the native tests under ASan and UBSan, then TSan
	@$(call native_tests,asan,-DMSCT_SANITIZE=address$(comma)undefined -DCMAKE_BUILD_TYPE=RelWithDebInfo,)
	@$(call native_tests,tsan,-DMSCT_SANITIZE=thread -DCMAKE_BUILD_TYPE=RelWithDebInfo,)

fuzz: export MS_CONVTANH_FUZZ_SECONDS = $(FUZZ_SECONDS)
fuzz: $(STAMPS)/native  ## compare all variants on random problems for FUZZ_SECONDS (600)
	@$(call native_tests,native-tests,,-R fuzz --timeout $$(($(FUZZ_SECONDS) + 300)))

aarch64: aarch64-tools $(STAMPS)/native  ## cross-build for aarch64, run the native tests in QEMU
	@$(call native_tests,aarch64,--toolchain cmake/aarch64-linux-gnu.cmake,)

aarch64-tools:  # installs nothing, says what to install
	@lacking=; \
	command -v aarch64-linux-gnu-g++ >/dev/null || lacking+=" g++-aarch64-linux-gnu"; \
	command -v qemu-aarch64 qemu-aarch64-static >/dev/null || lacking+=" qemu-user"; \
	[ -z "$$lacking" ] || { echo "make aarch64 needs more; on Debian or Ubuntu: apt-get install$$lacking" >&2; exit 1; }

wheel: $(STAMPS)/dist  ## make the source archive and the portable wheel in dist/
	@rm -rf build/dist dist; mkdir -p build
	@$(BIN)/python -m build --outdir build/dist . >build/wheel.log 2>&1 || { cat build/wheel.log; exit 1; }
	@$(BIN)/auditwheel repair --wheel-dir dist build/dist/*.whl >build/wheel.log 2>&1 || { cat build/wheel.log; exit 1; }
	@mv build/dist/*.tar.gz dist/
	@ls -1 dist/*

clean:  ## remove everything built, keep the virtual environment
	rm -rf build dist *.egg-info ms_convtanh/lib ms_convtanh/include ms_convtanh/share $(STAMPS)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis

distclean: clean  ## remove the virtual environment too
	rm -rf $(VENV)

comma := ,
# $(call native_tests,<build folder>,<cmake options>,<ctest options>)
define native_tests
	echo "native tests: build/$(1)"; mkdir -p build; \
	{ cmake -S . -B build/$(1) -G Ninja -DMSCT_BUILD_TESTS=ON $(2) && cmake --build build/$(1); } >build/$(1).log 2>&1 \
	  || { cat build/$(1).log; exit 1; }; \
	ctest --test-dir build/$(1) --output-on-failure --no-tests=error $(3); \
	sed -n 's/^skip [^:]*: /skipped: /p' build/$(1)/Testing/Temporary/LastTest.log | sort | uniq -c
endef

# The package, built and installed in editable form with one extra of pyproject.toml.
$(STAMPS)/%: $(PACKAGE_SOURCES) | $(BIN)/pip
	@mkdir -p $(STAMPS)
	@echo "set-up: ms_convtanh[$*] into $(VENV) (the first time may load MindSpore, about 1 GB)"
	@$(BIN)/pip install --quiet --editable '.[$*]'
	@touch $@

# The first Python that fits and can make a virtual environment. A name on PATH may be a wrapper that cannot run.
$(BIN)/pip:
	@for python in $(if $(PYTHON),$(PYTHON),python3 python3.12 python3.11 python3.10); do \
	  version=$$("$$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
	  case $$version in 3.10|3.11|3.12) ;; *) continue ;; esac; \
	  "$$python" -c 'import ensurepip, venv' 2>/dev/null || { lacking=$$version; continue; }; \
	  echo "set-up: $(VENV) with $$("$$python" --version)"; \
	  rm -rf $(VENV); "$$python" -m venv $(VENV); exit; \
	done; \
	if [ -n "$${lacking:-}" ]; then \
	  echo "Python $$lacking is here without its venv module; on Debian or Ubuntu: apt-get install python$$lacking-venv"; \
	else \
	  echo "No usable Python 3.10, 3.11 or 3.12 was found$(if $(PYTHON), as $(PYTHON)). Install one, or name it: make PYTHON=/path/to/python3"; \
	fi >&2; \
	exit 1
