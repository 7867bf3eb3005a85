/*
 * constant.c
 *		What the benchmark compares leaf_segment_nextval with: the cheapest
 *		function that can be called in its place.
 *
 * Built by test/bench/run in a throwaway folder, loaded from there by its
 * path, and never installed.
 */
#include "postgres.h"

#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(leaf_bench_constant);

/* leaf_bench_constant(tag text) returns bigint: 42, whatever the tag. */
Datum
leaf_bench_constant(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(42);
}
