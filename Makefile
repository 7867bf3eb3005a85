# leaf: distributed 64-bit ids as a column default

EXTENSION = leaf
MODULE_big = leaf
DATA = sql/leaf--1.0.sql
OBJS = $(patsubst %.c,%.o,$(wildcard src/*.c src/*/*.c))

PG_CPPFLAGS = -I$(libpq_srcdir)
PG_CFLAGS = -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers
SHLIB_LINK = $(libpq)

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)
