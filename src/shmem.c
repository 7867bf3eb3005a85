/*
 * shmem.c
 *		Reserves and initialises the shared memory of every part of leaf.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "alarm.h"
#include "segment/segment.h"
#include "shmem.h"
#include "snowflake/generator.h"
#include "snowflake/node.h"

typedef struct ShmemPart
{
	const char *name;
	Size		(*size) (void);
	void		(*init) (void *ptr, bool found);
} ShmemPart;

/* Every part of leaf that has shared memory: one line each. */
static const ShmemPart parts[] = {
	{"leaf alarms", leaf_alarm_shmem_size, leaf_alarm_shmem_init},
	{"leaf tags", leaf_slot_shmem_size, leaf_slot_shmem_init},
	{"leaf refill workers", leaf_launch_shmem_size, leaf_launch_shmem_init},
	{"leaf generator", leaf_generator_shmem_size, leaf_generator_shmem_init},
	{"leaf node", leaf_node_shmem_size, leaf_node_shmem_init},
};

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static LWLockPadded *locks = NULL;

static void
request_shmem(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	for (int i = 0; i < lengthof(parts); i++)
		RequestAddinShmemSpace(CACHELINEALIGN(parts[i].size()));
	RequestAddinShmemSpace(leaf_slot_hash_size());
	RequestNamedLWLockTranche("leaf", LEAF_LOCK_COUNT);
}

static void
startup_shmem(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	locks = GetNamedLWLockTranche("leaf");
	for (int i = 0; i < lengthof(parts); i++)
	{
		bool		found;
		void	   *ptr = ShmemInitStruct(parts[i].name, parts[i].size(), &found);

		parts[i].init(ptr, found);
	}
	LWLockRelease(AddinShmemInitLock);
}

void
leaf_shmem_install(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}

LWLock *
leaf_shmem_lock(LeafLock lock)
{
	return &locks[lock].lock;
}

void
leaf_require_preload(void)
{
	if (locks == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leaf must be loaded via \"shared_preload_libraries\""),
				 errhint("Add shared_preload_libraries = 'leaf' to postgresql.conf and restart the server.")));
}
