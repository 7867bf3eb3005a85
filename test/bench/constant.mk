# Builds constant.so for test/bench/run, in the folder it is called in.
MODULES = constant
PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)
