/*
 * compat.h
 *		What differs between PostgreSQL 15 and 19, in one place.
 *
 * No other file mentions PG_VERSION_NUM.
 */
#ifndef LEAF_COMPAT_H
#define LEAF_COMPAT_H

#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "leaf supports PostgreSQL 15 to 19"
#endif

/* Custom wait events have had names since 17; before, all are "Extension". */
#if PG_VERSION_NUM >= 170000
#define leaf_wait_event_new(name) WaitEventExtensionNew(name)
#else
#define leaf_wait_event_new(name) PG_WAIT_EXTENSION
#endif

/* From 19 on the server itself can ask a worker to leave its database. */
#ifndef BGWORKER_INTERRUPTIBLE
#define BGWORKER_INTERRUPTIBLE 0
#endif

#endif							/* LEAF_COMPAT_H */
