/*
 * source_static.c
 *		Worker ids by hand: leaf.worker_id.
 *
 * The setting is part of the configuration that a standby shares with its
 * primary, so a standby has no worker id of its own until it is promoted.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"

#include "guc.h"
#include "snowflake/source.h"

static void
static_step(const LeafSourceInput *input, LeafSourceResult *result)
{
	if (leaf_guc_worker_id < 0)
	{
		leaf_source_refuse(result, LEAF_REFUSAL_NO_WORKER_ID,
						   "Set leaf.worker_id to a number in 0..1023 that no other node of the cluster has, and restart the server.",
						   "leaf.worker_id_source is static, but leaf.worker_id is not set.");
		return;
	}
	if (RecoveryInProgress())
	{
		/* Every server is in recovery for a moment when it starts. */
		if (!HotStandbyActive())
			return;
		leaf_source_refuse(result, LEAF_REFUSAL_IN_RECOVERY,
						   "Draw ids on the primary, or give the standby a worker id of its own with leaf.worker_id_source hostname or zookeeper.",
						   "The server is a standby, and worker id %d is its primary's until it is promoted.",
						   leaf_guc_worker_id);
		return;
	}

	/* Promoted, or restored to a point in time. */
	leaf_source_floor_of_data(result);

	result->worker_id = leaf_guc_worker_id;
	result->state = leaf_source_known_node(input, result->worker_id) ?
		LEAF_SOURCE_READY :
		LEAF_SOURCE_CHECK_CLOCK;
}

const LeafSourceRoutine leaf_source_static = {
	.name = "static",
	.step = static_step,
};
