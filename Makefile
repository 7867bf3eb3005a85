# leaf: distributed 64-bit ids as a column default
#
# What PGXS offers (all, install, installcheck, clean, ...) is there once a
# PostgreSQL with its server headers is; PG_CONFIG says which. The targets of
# our own also work before that: they begin by installing it.

EXTENSION = leaf
MODULE_big = leaf
DATA = $(wildcard sql/leaf--*.sql)
OBJS = $(patsubst %.c,%.o,$(wildcard src/*.c src/*/*.c))

REGRESS = $(filter-out leaf--%,$(patsubst sql/%.sql,%,$(wildcard sql/*.sql)))
REGRESS_OPTS = --encoding=UTF8 --no-locale
ISOLATION = $(patsubst test/isolation/specs/%.spec,%,$(wildcard test/isolation/specs/*.spec))
ISOLATION_OPTS = --encoding=UTF8 --no-locale --inputdir=test/isolation
TAP_TESTS = 1
PROVE_TESTS ?= test/t/*.pl

PG_CPPFLAGS = -I$(CURDIR)/src -I$(libpq_srcdir)
PG_CFLAGS = -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers
SHLIB_LINK = $(libpq)
ifneq ($(wildcard src/zookeeper/*.c),)
SHLIB_LINK += -lzookeeper_mt
endif

EXTRA_CLEAN = test_output

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
SERVER_HEADERS := $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)

ifneq ($(and $(wildcard $(PGXS)),$(wildcard $(SERVER_HEADERS)/postgres.h)),)
.DEFAULT_GOAL := all
include $(PGXS)

PROVE_FLAGS += -I '$(CURDIR)/test/perl' --timer -j $(or $(JOBS),2)
src/zookeeper/%.o src/zookeeper/%.bc: override CPPFLAGS += -DTHREADED
$(OBJS) $(OBJS:.o=.bc): $(wildcard src/*.h src/*/*.h)
else
.DEFAULT_GOAL := help
all install installcheck:
	@echo "No PostgreSQL with server headers at \"$(PG_CONFIG)\": run \"make setup\", or give PG_CONFIG=/path/to/pg_config." >&2
	@false
endif

# The server is found anew after setup, which may have brought it.
BUILD = $(MAKE) --no-print-directory PG_CONFIG='$(PG_CONFIG)'

.PHONY: help setup demo test bench format format-check

help:
	@echo 'make                 build (PG_CONFIG=... chooses the PostgreSQL, 15 to 19)'
	@echo 'make install         install into that PostgreSQL'
	@echo 'make setup           install the Debian packages that are missing (root)'
	@echo 'make demo            see it work on a throwaway server'
	@echo '                     KEEP=1 leaves it running, ZOOKEEPER=1 shows a cluster'
	@echo 'make test            run all tests; TESTS="name ..." only those'
	@echo 'make bench           compare its speed with that of sequences'
	@echo 'make format          lay out the C sources; format-check only looks'

setup:
	@PG_CONFIG='$(PG_CONFIG)' scripts/setup.sh

demo:
	@PG_CONFIG='$(PG_CONFIG)' scripts/setup.sh build $(if $(ZOOKEEPER),zookeeper)
	@$(BUILD) -s install
	@PG_CONFIG='$(PG_CONFIG)' KEEP='$(KEEP)' ZOOKEEPER='$(ZOOKEEPER)' scripts/demo.sh

test:
	@PG_CONFIG='$(PG_CONFIG)' scripts/setup.sh build test
	@$(BUILD) -s install
	@PG_CONFIG='$(PG_CONFIG)' TESTS='$(TESTS)' JOBS='$(JOBS)' KEEP='$(KEEP)' scripts/test.sh

bench:
	@PG_CONFIG='$(PG_CONFIG)' scripts/setup.sh build
	@$(BUILD) -s install
	@PG_CONFIG='$(PG_CONFIG)' test/bench/run

SOURCES = $(wildcard src/*.[ch] src/*/*.[ch] test/*/*.[ch])

format:
	@scripts/setup.sh format
	@scripts/format.sh write $(SOURCES)

format-check:
	@scripts/setup.sh format
	@scripts/format.sh check $(SOURCES)
