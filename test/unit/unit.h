/*
 * unit.h
 *		A unit test is a program that prints TAP; see test/t/200_*.pl.
 */
#ifndef LEAF_TEST_UNIT_H
#define LEAF_TEST_UNIT_H

#include "postgres.h"

#include <stdlib.h>

static int	unit_count = 0;
static int	unit_failed = 0;

static inline void
ok(bool passed, const char *what)
{
	printf("%sok %d - %s\n", passed ? "" : "not ", ++unit_count, what);
	if (!passed)
		unit_failed++;
}

static inline int
done(void)
{
	printf("1..%d\n", unit_count);
	return unit_failed > 0;
}

/* Assert() of an assertion-enabled server's headers. */
void
ExceptionalCondition(const char *condition,
#if PG_VERSION_NUM < 160000
					 const char *type,
#endif
					 const char *file, int line)
{
	printf("Bail out! %s, %s:%d\n", condition, file, line);
	abort();
}

#endif							/* LEAF_TEST_UNIT_H */
