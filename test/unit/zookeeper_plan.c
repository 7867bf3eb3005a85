/*
 * zookeeper_plan.c
 *		The two decisions about what is found in ZooKeeper.
 */
#include "unit.h"

#include "snowflake/zookeeper_plan.h"

#define ME "me:1"

static LeafZkNode nodes[8];
static int	nnodes;

static void
put(const char *address, int sequence, int64 mtime_ms, int64 created_txn,
	bool has_ephemeral)
{
	LeafZkNode *node = &nodes[nnodes++];

	memset(node, 0, sizeof(*node));
	strcpy(node->address, address);
	node->sequence = sequence;
	node->mtime_ms = mtime_ms;
	node->created_txn = created_txn;
	node->has_ephemeral = has_ephemeral;
}

/* Decide, compare, and forget the nodes. */
static void
plans(const char *what, int held_id, int64 next_sequence, int64 ttl_ms,
	  LeafZkIdPlan wanted, int wanted_node)
{
	LeafZkPlanInput input;
	LeafZkIdPlan plan;
	int			node;

	memset(&input, 0, sizeof(input));
	input.address = ME;
	input.nodes = nodes;
	input.nnodes = nnodes;
	input.held_id = held_id;
	input.next_sequence = next_sequence;
	input.ensemble_now_ms = 100000;
	input.ttl_ms = ttl_ms;
	plan = leaf_zk_plan_id(&input, &node);
	ok(plan == wanted && node == wanted_node, what);
	nnodes = 0;
}

static void
names(const char *what, LeafZkName name, bool held_before, LeafZkNamePlan wanted)
{
	ok(leaf_zk_plan_name(&name, held_before) == wanted, what);
}

int
main(void)
{
	names("no ephemeral", (LeafZkName) {.exists = false}, false, LEAF_ZK_NAME_CREATE);
	names("no ephemeral any more", (LeafZkName) {.exists = false}, true, LEAF_ZK_NAME_CREATE);
	names("this session's", (LeafZkName) {.exists = true, .this_session = true, .same_instance = true},
		  true, LEAF_ZK_NAME_HELD);
	names("this session's, whatever is in it", (LeafZkName) {.exists = true, .this_session = true},
		  false, LEAF_ZK_NAME_HELD);
	names("a past session's", (LeafZkName) {.exists = true, .past_session = true, .same_instance = true},
		  true, LEAF_ZK_NAME_EVICT);
	names("an earlier run's", (LeafZkName) {.exists = true, .same_instance = true},
		  false, LEAF_ZK_NAME_EVICT);
	names("that of a copy of this machine", (LeafZkName) {.exists = true, .same_instance = true},
		  true, LEAF_ZK_NAME_DUPLICATE);
	names("another server's", (LeafZkName) {.exists = true}, false, LEAF_ZK_NAME_DUPLICATE);
	names("another server's, later", (LeafZkName) {.exists = true}, true, LEAF_ZK_NAME_DUPLICATE);

	plans("nothing there", -1, 0, 0, LEAF_ZK_ID_CREATE, -1);
	put("a:1", 0, 1, 1, true);
	plans("others there", -1, 1, 0, LEAF_ZK_ID_CREATE, -1);
	put("a:1", 0, 1, 1, true);
	put(ME, 1, 1, 2, false);
	plans("our node", -1, 2, 0, LEAF_ZK_ID_USE, 1);
	put(ME, 4, 1, 2, false);
	put(ME, 2, 1, 3, false);
	plans("two of ours: the lowest", -1, 5, 0, LEAF_ZK_ID_USE, 1);
	put(ME, 4, 1, 2, false);
	put(ME, 2, 1, 3, false);
	plans("two of ours: the one that we remember", 4, 5, 0, LEAF_ZK_ID_USE, 0);
	put(ME, 3, 1, 2, false);
	plans("ours has another id than we remember", 7, 5, 0, LEAF_ZK_ID_USE, 0);
	put("me:10", 0, 1, 1, false);
	plans("an address that begins like ours", -1, 1, 0, LEAF_ZK_ID_CREATE, -1);
	put(ME, 1024, 1, 2, false);
	plans("ours is out of range", -1, 1025, 0, LEAF_ZK_ID_OUT_OF_RANGE, -1);

	plans("lost data", 5, 0, 0, LEAF_ZK_ID_RESTORE, -1);
	put("a:1", 5, 1, 1, true);
	plans("lost data, id taken", 5, 6, 0, LEAF_ZK_ID_CREATE, -1);
	put("a:1", 5, 1, 1, true);
	put(ME, 5, 1, 2, true);
	plans("one id twice: the first has it", 5, 6, 0, LEAF_ZK_ID_CREATE, -1);
	put("a:1", 5, 1, 2, true);
	put(ME, 5, 1, 1, true);
	plans("one id twice: we are the first", 5, 6, 0, LEAF_ZK_ID_USE, 1);

	plans("1023 is an id", -1, 1023, 0, LEAF_ZK_ID_CREATE, -1);
	plans("1024 is none", -1, 1024, 0, LEAF_ZK_ID_OUT_OF_RANGE, -1);
	put("a:1", 7, 1000, 1, false);
	plans("ids are for ever by default", -1, 1024, 0, LEAF_ZK_ID_OUT_OF_RANGE, -1);
	put("a:1", 7, 89999, 1, false);
	put("b:1", 8, 80000, 2, false);
	put("c:1", 9, 10000, 3, true);
	put("d:1", 1500, 10000, 4, false);
	plans("the longest silent, without ephemeral", -1, 1024, 10000, LEAF_ZK_ID_TAKE_OVER, 1);
	put("a:1", 7, 90001, 1, false);
	put("b:1", 8, 99000, 2, false);
	plans("none silent for long enough", -1, 1024, 10000, LEAF_ZK_ID_OUT_OF_RANGE, -1);
	put("a:1", 7, 1000, 1, false);
	put("b:1", 7, 99000, 2, true);
	plans("not an id that another has too", -1, 1024, 200000, LEAF_ZK_ID_OUT_OF_RANGE, -1);
	put("a:1", 7, 1000, 1, false);
	plans("not before it is needed", -1, 1000, 10000, LEAF_ZK_ID_CREATE, -1);

	return done();
}
