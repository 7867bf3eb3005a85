/*
 * node_status.c
 *		What the node worker tells about itself, in shared memory.
 *
 * The worker writes, whole, and everybody else copies.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"

#include "guc.h"
#include "shmem.h"
#include "snowflake/node.h"

typedef struct NodeShared
{
	/* All of it is guarded by LEAF_LOCK_NODE. */
	Latch	   *worker_latch;	/* NULL: no worker */
	LeafNodeStatus status;
	int			npeers;
	LeafPeer	peers[LEAF_MAX_PEERS];
} NodeShared;

static NodeShared *shared = NULL;

Size
leaf_node_shmem_size(void)
{
	return sizeof(NodeShared);
}

void
leaf_node_shmem_init(void *ptr, bool found)
{
	shared = ptr;
	if (found)
		return;
	memset(shared, 0, sizeof(NodeShared));
	shared->status.state = leaf_guc_worker_id_source == LEAF_SOURCE_NONE ?
		LEAF_NODE_DISABLED :
		LEAF_NODE_STARTING;
	shared->status.worker_id = -1;
}

void
leaf_node_get_status(LeafNodeStatus *status)
{
	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_NODE), LW_SHARED);
	*status = shared->status;
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_NODE));
}

int
leaf_node_get_peers(LeafPeer **rows)
{
	int			count;

	/* Room before the lock: nothing is allocated under it. */
	*rows = palloc(sizeof(LeafPeer) * LEAF_MAX_PEERS);
	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_NODE), LW_SHARED);
	count = shared->npeers;
	memcpy(*rows, shared->peers, sizeof(LeafPeer) * count);
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_NODE));
	return count;
}

bool
leaf_node_wake(void)
{
	bool		there;

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_NODE), LW_SHARED);
	there = shared->worker_latch != NULL;
	if (there)
		SetLatch(shared->worker_latch);
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_NODE));
	return there;
}

const char *
leaf_node_state_name(LeafNodeState state)
{
	static const char *const names[] = {
		[LEAF_NODE_DISABLED] = "disabled",
		[LEAF_NODE_STARTING] = "starting",
		[LEAF_NODE_RUNNING] = "running",
		[LEAF_NODE_REFUSED] = "refused",
	};

	return names[state];
}

const char *
leaf_refusal_name(LeafRefusal refusal)
{
	static const char *const names[] = {
		[LEAF_REFUSAL_NONE] = "none",
		[LEAF_REFUSAL_CLOCK_BEHIND] = "clock_behind",
		[LEAF_REFUSAL_CLOCK_SKEWED] = "clock_skewed",
		[LEAF_REFUSAL_NO_WORKER_ID] = "no_worker_id",
		[LEAF_REFUSAL_WORKER_ID_OUT_OF_RANGE] = "worker_id_out_of_range",
		[LEAF_REFUSAL_DUPLICATE_NODE] = "duplicate_node",
		[LEAF_REFUSAL_BAD_HOSTNAME] = "bad_hostname",
		[LEAF_REFUSAL_STATE_FILE_INVALID] = "state_file_invalid",
		[LEAF_REFUSAL_IN_RECOVERY] = "in_recovery",
		[LEAF_REFUSAL_FENCED] = "fenced",
	};

	return names[refusal];
}

void
leaf_node_publish_status(const LeafNodeStatus *status)
{
	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_NODE), LW_EXCLUSIVE);
	shared->status = *status;
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_NODE));
}

void
leaf_node_publish_peers(const LeafPeer *rows, int count)
{
	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_NODE), LW_EXCLUSIVE);
	shared->npeers = count;
	memcpy(shared->peers, rows, sizeof(LeafPeer) * count);
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_NODE));
}

/* before_shmem_exit: nobody must set the latch of a process that is gone. */
static void
forget_latch(int code, Datum arg)
{
	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_NODE), LW_EXCLUSIVE);
	if (shared->worker_latch == MyLatch)
		shared->worker_latch = NULL;
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_NODE));
}

void
leaf_node_attach(void)
{
	before_shmem_exit(forget_latch, 0);
	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_NODE), LW_EXCLUSIVE);
	shared->worker_latch = MyLatch;
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_NODE));
}
