/*
 * zookeeper_plan.c
 *		What a node does about what it found in ZooKeeper.
 */
#include "postgres.h"

#include "snowflake/source.h"
#include "snowflake/zookeeper_plan.h"

/*
 * An ephemeral of our address is ours if a session of this process made it,
 * or if a server on our data directory did and that can only have been an
 * earlier run.  The same instance at any other time is a copy of this
 * machine, disk and all, that runs beside us: if both kept replacing each
 * other's ephemeral, both would go on issuing the same ids.
 */
LeafZkNamePlan
leaf_zk_plan_name(const LeafZkName *name, bool held_before)
{
	if (!name->exists)
		return LEAF_ZK_NAME_CREATE;
	if (name->this_session)
		return LEAF_ZK_NAME_HELD;
	if (name->past_session || (name->same_instance && !held_before))
		return LEAF_ZK_NAME_EVICT;
	return LEAF_ZK_NAME_DUPLICATE;
}

static bool
in_range(int sequence)
{
	return sequence >= 0 && sequence <= LEAF_MAX_WORKER_ID;
}

/*
 * The node of another address with that id, the oldest if there are several;
 * NULL if nobody else has it.
 */
static const LeafZkNode *
other_owner(const LeafZkPlanInput *input, int id)
{
	const LeafZkNode *found = NULL;

	for (int i = 0; i < input->nnodes; i++)
	{
		const LeafZkNode *node = &input->nodes[i];

		if (node->sequence == id && strcmp(node->address, input->address) != 0 &&
			(found == NULL || node->created_txn < found->created_txn))
			found = node;
	}
	return found;
}

/*
 * Our own node: the one of the id that we remember, else the lowest.  Where
 * two addresses have one id (possible only after the data was lost and put
 * back by hand or by several nodes at once) it belongs to the node made
 * first, on which all agree.
 */
static int
own_node(const LeafZkPlanInput *input)
{
	int			found = -1;

	for (int i = 0; i < input->nnodes; i++)
	{
		const LeafZkNode *node = &input->nodes[i];
		const LeafZkNode *other;

		if (strcmp(node->address, input->address) != 0 || !in_range(node->sequence))
			continue;
		other = other_owner(input, node->sequence);
		if (other != NULL && other->created_txn < node->created_txn)
			continue;
		if (node->sequence == input->held_id)
			return i;
		if (found < 0 || node->sequence < input->nodes[found].sequence)
			found = i;
	}
	return found;
}

/*
 * The node that has been silent for longest, if that is long enough.
 */
static int
abandoned_node(const LeafZkPlanInput *input)
{
	int			found = -1;

	if (input->ttl_ms <= 0)
		return -1;
	for (int i = 0; i < input->nnodes; i++)
	{
		const LeafZkNode *node = &input->nodes[i];

		if (strcmp(node->address, input->address) == 0 ||
			!in_range(node->sequence) || node->has_ephemeral ||
			input->ensemble_now_ms - node->mtime_ms < input->ttl_ms ||
			other_owner(input, node->sequence) != node)
			continue;
		if (found < 0 || node->mtime_ms < input->nodes[found].mtime_ms)
			found = i;
	}
	return found;
}

LeafZkIdPlan
leaf_zk_plan_id(const LeafZkPlanInput *input, int *node)
{
	*node = own_node(input);
	if (*node >= 0)
		return LEAF_ZK_ID_USE;
	if (in_range(input->held_id) && other_owner(input, input->held_id) == NULL)
		return LEAF_ZK_ID_RESTORE;
	if (input->next_sequence <= LEAF_MAX_WORKER_ID)
		return LEAF_ZK_ID_CREATE;
	*node = abandoned_node(input);
	return *node >= 0 ? LEAF_ZK_ID_TAKE_OVER : LEAF_ZK_ID_OUT_OF_RANGE;
}
