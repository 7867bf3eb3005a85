/*
 * source_zookeeper.c
 *		Worker ids from ZooKeeper.
 */
#include "postgres.h"

#include "source.h"

static void
zookeeper_step(const LeafSourceInput *input, LeafSourceResult *result)
{
	leaf_source_refuse(result, LEAF_REFUSAL_NO_WORKER_ID, NULL,
					   "This build has no ZooKeeper.");
}

const LeafSourceRoutine leaf_source_zookeeper = {
	.name = "zookeeper",
	.step = zookeeper_step,
};
