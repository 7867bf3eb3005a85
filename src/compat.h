/*
 * compat.h
 *		What differs between PostgreSQL 15 and 19, in one place.
 *
 * No other file mentions PG_VERSION_NUM.
 */
#ifndef LEAF_COMPAT_H
#define LEAF_COMPAT_H

#include "storage/procarray.h"
#include "storage/shmem.h"
#include "storage/sinvaladt.h"
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

/* A shared hash of fixed size. */
#if PG_VERSION_NUM >= 190000
#define leaf_shmem_init_hash(name, size, info, flags) \
	ShmemInitHash(name, size, info, flags)
#else
#define leaf_shmem_init_hash(name, size, info, flags) \
	ShmemInitHash(name, size, size, info, flags)
#endif

/* Since 16, a range is made with a place for soft errors. */
#if PG_VERSION_NUM >= 160000
#define leaf_make_range(typcache, lower, upper) \
	make_range(typcache, lower, upper, false, NULL)
#else
#define leaf_make_range(typcache, lower, upper) \
	make_range(typcache, lower, upper, false)
#endif

/* Since 18, a deferrable primary key has to be asked for. */
#if PG_VERSION_NUM >= 180000
#define leaf_primary_key_index(rel) RelationGetPrimaryKeyIndex(rel, false)
#else
#define leaf_primary_key_index(rel) RelationGetPrimaryKeyIndex(rel)
#endif

/* In 16, the checks of ownership became one function. */
#if PG_VERSION_NUM >= 160000
#define leaf_owns_database(dboid) \
	object_ownercheck(DatabaseRelationId, dboid, GetUserId())
#else
#define leaf_owns_database(dboid) pg_database_ownercheck(dboid, GetUserId())
#endif

/* From 19 on the server itself can ask a worker to leave its database. */
#ifndef BGWORKER_INTERRUPTIBLE
#define BGWORKER_INTERRUPTIBLE 0
#endif

/* In 19, signal handlers have a type of their own. */
#ifndef PG_SIG_IGN
#define PG_SIG_IGN SIG_IGN
#endif

/* The process of a virtual transaction, NULL if it is gone. */
#if PG_VERSION_NUM >= 170000
#define leaf_vxid_proc(vxid) ProcNumberGetProc((vxid).procNumber)
#else
#define leaf_vxid_proc(vxid) BackendIdGetProc((vxid).backendId)
#endif

/* What a check hook allocates and frees. */
#if PG_VERSION_NUM >= 160000
#define leaf_guc_strdup(text) guc_strdup(LOG, text)
#define leaf_guc_free(text) guc_free(text)
#else
#define leaf_guc_strdup(text) strdup(text)
#define leaf_guc_free(text) free(text)
#endif

/* Before a function's type: it does not return. */
#if PG_VERSION_NUM >= 180000
#define leaf_noreturn pg_noreturn
#else
#define leaf_noreturn pg_attribute_noreturn()
#endif

/* A process's number among the server's processes, from 0. */
#if PG_VERSION_NUM >= 170000
#define leaf_my_proc_number() MyProcNumber
#else
#define leaf_my_proc_number() (MyProc->pgprocno)
#endif

/* A wait event set that belongs to nothing and is freed by hand. */
#if PG_VERSION_NUM >= 170000
#define leaf_create_wait_event_set(nevents) CreateWaitEventSet(NULL, nevents)
#else
#define leaf_create_wait_event_set(nevents) CreateWaitEventSet(TopMemoryContext, nevents)
#endif

#endif							/* LEAF_COMPAT_H */
