/*
 * source_zookeeper.c
 *		Worker ids from ZooKeeper, in the paths and data of Leaf.
 *
 * Each turn takes in what the session (zookeeper/session.h) has to say and
 * moves through the stages below.  A stage is a few operations that are sent
 * together; when all are answered the next one is chosen.
 *
 *	LOOK       our ephemeral under temporary: is the address ours to use?
 *	NAME       make it, having removed what an earlier run left
 *	PARENTS    make the nodes above, where they are missing; then LOOK
 *	MEASURE    one write to it: its mtime is the ensemble's clock
 *	LIST, READ the nodes under forever: ourselves and our peers
 *	           then leaf_zk_plan_id() says which of these it is:
 *	WAIT_CLOCK a new node waits until its clock has been compared
 *	CREATE     our sequential node; its sequence is the worker id
 *	RESTORE    our node was lost: make it again under the id we hold
 *	TAKE_OVER  the id of a node that is long gone
 *	CLAIM      we have a node: the first report to it
 *	REGISTERED report; from time to time LOOK again
 *
 * The ephemeral comes first because it is the lock on the address: two
 * servers of one address can't both go on to forever.  It is also a write
 * that uses nothing up, for the comparison of the clocks.
 *
 * A lost connection changes nothing for the ids: what was granted stays
 * granted, and the stages begin again once there is a connection.  With
 * leaf.worker_id_ttl the grant is a lease: half of the time without a
 * confirmed report ends it ('fenced'), and after the whole of it the id may
 * be another node's.
 *
 * Nothing is ever created without having looked first, after a sync: an
 * answer that was lost is found that way.
 */
#include "postgres.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "access/xlog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "alarm.h"
#include "guc.h"
#include "zookeeper/node_data.h"
#include "zookeeper/session.h"
#include "snowflake/source.h"
#include "snowflake/zookeeper_cluster.h"
#include "snowflake/zookeeper_plan.h"

/* Without a connection for this long at the start: go on with the file's id. */
#define WEAK_START_MS 1000

/* The same with a connection that leads to nothing. */
#define WEAK_START_CONNECTED_MS 3000

/* Calls wait for this long before they are told why there is no id. */
#define REFUSE_AFTER_MS 3000

/* Trouble that is over sooner than this is not worth an alarm. */
#define ALARM_AFTER_MS 1000

/* How long the alarm of a changed worker id stays. */
#define ID_CHANGED_ALARM_MS 60000

#define RETRY_MS 500			/* after something that others may end */
#define RETRY_SLOW_MS 3000		/* the same where reading costs more */
#define STOP_WAIT_MS 300

/*
 * A cluster that was made just now may be one whose data was lost.  Nodes
 * that run in it already need this long to come back, and a new node waits,
 * or it would be given one of their ids.
 */
#define YOUNG_CLUSTER_MS 1500

/* Sessions of ours that may still have an ephemeral; more than enough. */
#define PAST_SESSIONS 64

/* A measurement that took longer is repeated, a few times. */
#define GOOD_ROUND_TRIP_MS 20
#define MEASUREMENTS 3

/* Nodes that are read each leaf.time_report_interval; more take longer. */
#define NODES_PER_REFRESH 32

typedef enum Stage
{
	STAGE_IDLE,					/* until retry_at, or a connection */
	STAGE_LOOK,
	STAGE_NAME,
	STAGE_PARENTS,
	STAGE_MEASURE,
	STAGE_LIST,
	STAGE_READ,
	STAGE_WAIT_CLOCK,
	STAGE_CREATE,
	STAGE_RESTORE,
	STAGE_TAKE_OVER,
	STAGE_CLAIM,
	STAGE_RELEASE,				/* give the ephemeral back, clock refused */
	STAGE_REGISTERED,
} Stage;

/* What an operation is for; part of its tag. */
typedef enum OpKind
{
	OP_SYNC,
	OP_NAME_GET,
	OP_NAME_DELETE,
	OP_NAME_CREATE,
	OP_NAME_SET,
	OP_PARENT,
	OP_LIST_FOREVER,
	OP_LIST_TEMPORARY,
	OP_NODE_GET,				/* index: of the node */
	OP_NODE_WRITE,				/* create, restore, take over or claim ours */
	OP_DISCARD,					/* delete a node that was just made */
	OP_REPORT,					/* not part of a stage */
} OpKind;

/*
 * A tag is kind, index and round.  The round changes with every stage, so
 * that an answer to a question that is no longer asked is known as such.
 */
#define TAG_INDEX_BITS 12
#define TAG_ROUND_BITS 14
#define TAG_ROUND_MASK ((1U << TAG_ROUND_BITS) - 1)

StaticAssertDecl(LEAF_ZK_MAX_NODES <= 1 << TAG_INDEX_BITS, "a tag has no room for the index");

/* Paths and names, made once by start(). */
static char *forever_path;
static char *temporary_path;
static char *name_path;			/* our ephemeral */
static char *node_prefix;		/* our node under forever, less its sequence */
static char instance[LEAF_INSTANCE_LEN];
static const char *config_error = NULL; /* nothing works with these settings */

/* The stage. */
static Stage stage = STAGE_IDLE;
static uint32 round_no = 0;
static int	pending = 0;		/* answers that the stage waits for */
static int64 retry_at = 0;		/* STAGE_IDLE, WAIT_CLOCK, REGISTERED */
static LeafZkCode write_code;	/* of the stage's one write */
static int	write_client_code;
static int	write_sequence;		/* of a node that was created; -1 */
static int64 sent_wall_ms;		/* when it was sent */
static int64 sent_mono_ms;
static int64 sent_time_ms;		/* the timestamp that it carries */
static bool parents_made = false;	/* in this attempt ... */
static bool parents_refused;	/* ... but for lack of rights */
static char created_path[1024]; /* by a sequential create */
static int	measurements;

/* The session. */
static uint32 seen_session = 0;
static int64 session_id = 0;
static int64 past_sessions[PAST_SESSIONS];	/* a ring */
static bool held_before = false;

/* What was found. */
static LeafZkName name;
static int32 name_version;
static LeafZkCluster cluster;
static uint32 peers_version = 0;

/* What came of it. */
static char *node_path = NULL;	/* our node; NULL: none known */
static int	granted = -1;		/* worker id that may be used */
static int64 floor_ms = 0;		/* above this time */
static bool revoked = false;	/* let the loop see one turn without it */
static bool registered = false; /* node and ephemeral are ours, now */
static bool new_node = false;	/* waiting for the comparison of clocks */
static int	lost_id = -1;		/* was ours, and is another node's now */

/*
 * The clock is behind the last report in our node.  The loop refuses until
 * it is not; a report written meanwhile would show others a clock that is
 * not ours, so the claim waits.
 */
static bool unclaimed = false;
static LeafRefusal refusal = LEAF_REFUSAL_NONE;
static char refusal_detail[LEAF_DETAIL_LEN];
static const char *refusal_hint = NULL;

/* Reports. */
static bool report_pending = false;
static uint32 report_no = 0;
static int64 report_time_ms;	/* the one that is under way */
static int64 report_wall_ms;
static int64 report_mono_ms;
static int64 report_lease_ms;
static int64 last_report_ms = 0;	/* confirmed */
static int64 lease_ms = 0;		/* lease clock when it was sent; 0: none */
static int64 sent_lease_ms;

/* Trouble. */
static char trouble[LEAF_ALARM_TEXT_LEN];	/* an operation's; "": none */
static bool no_auth = false;	/* what it is about */
static int64 trouble_since = 0; /* of whichever kind; 0: none */
static char alarm_text[LEAF_ALARM_TEXT_LEN];	/* as raised; "": not raised */
static char id_changed_text[LEAF_ALARM_TEXT_LEN];
static int64 id_changed_until = 0;
static int64 no_id_since = 0;	/* for REFUSE_AFTER_MS */
static int64 started_at = 0;
static int64 turn_ms = 0;		/* monotonic time of the last turn */

/* The turn's input, for the functions that step() calls. */
static const LeafSourceInput *in = NULL;

static void begin_look(void);
static void begin_list(void);
static void begin_plan(void);

/*
 * The clock of the lease goes on while the machine sleeps: another node does
 * not wait for us.
 */
static int64
lease_clock_ms(void)
{
	struct timespec ts;

#ifdef CLOCK_BOOTTIME
	if (clock_gettime(CLOCK_BOOTTIME, &ts) != 0)
#endif
		clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64
ttl_ms(void)
{
	return (int64) leaf_guc_worker_id_ttl * 1000;
}

/* The worker id that is ours as far as we know ourselves, or -1. */
static int
held_id(void)
{
	int			id = granted;

	if (id < 0)
		id = in->worker_id;
	if (id < 0 && in->file != NULL && in->file_is_ours)
		id = in->file->worker_id;
	return id == lost_id ? -1 : id;
}

/*
 * Name what a data directory is, and a copy of it is not: so that what our
 * own earlier run left in ZooKeeper is told from what another server of the
 * same address made.
 */
static void
make_instance(void)
{
	StringInfoData text;
	struct stat st;
	char		host[256];
	FILE	   *file;
	uint64		hash;

	initStringInfo(&text);
	appendStringInfo(&text, UINT64_FORMAT, GetSystemIdentifier());
	if (stat(DataDir, &st) == 0)
		appendStringInfo(&text, "|%llu|%llu", (unsigned long long) st.st_dev,
						 (unsigned long long) st.st_ino);
	if (stat("global/pg_control", &st) == 0)
		appendStringInfo(&text, "|%llu", (unsigned long long) st.st_ino);
	if (gethostname(host, sizeof(host)) == 0)
		appendStringInfo(&text, "|%.*s", (int) sizeof(host), host);
	file = fopen("/etc/machine-id", "r");
	if (file != NULL)
	{
		if (fgets(host, sizeof(host), file) != NULL)
			appendStringInfo(&text, "|%s", host);
		fclose(file);
	}
	hash = hash_bytes_extended((const unsigned char *) text.data, text.len, 0);
	snprintf(instance, sizeof(instance), "%016llx", (unsigned long long) hash);
	pfree(text.data);
}

/*
 * Count what is to be answered before the stage is over, and make its tag.
 */
static uint32
stage_tag(OpKind kind, int index)
{
	pending++;
	return ((uint32) kind << (TAG_INDEX_BITS + TAG_ROUND_BITS)) |
		((uint32) index << TAG_ROUND_BITS) | (round_no & TAG_ROUND_MASK);
}

static void
begin_stage(Stage new_stage)
{
	stage = new_stage;
	round_no++;
	pending = 0;
	write_code = LEAF_ZK_OK;
	write_client_code = 0;
	write_sequence = -1;
}

static void
retry_in(int ms)
{
	begin_stage(STAGE_IDLE);
	retry_at = in->now.mono_ms + ms;
}

static void
clear_refusal(void)
{
	refusal = LEAF_REFUSAL_NONE;
}

/*
 * Stop issuing, whatever was granted.
 */
static void
refuse(LeafRefusal why, const char *hint, const char *detail)
{
	refusal = why;
	strlcpy(refusal_detail, detail, sizeof(refusal_detail));
	refusal_hint = hint;
	registered = false;
}

/*
 * An operation failed in a way that needs a person, or time.
 */
static void
note_trouble(const char *what)
{
	no_auth = write_code == LEAF_ZK_NO_AUTH;
	if (no_auth)
		snprintf(trouble, sizeof(trouble),
				 "ZooKeeper does not let this node %s: not authorized", what);
	else
		snprintf(trouble, sizeof(trouble), "ZooKeeper could not %s: %s",
				 what, leaf_zk_code_text(write_client_code));
	registered = false;
	new_node = false;			/* to be decided anew */
	if (unclaimed)
		granted = -1;
	unclaimed = false;
	parents_made = false;
	retry_in(RETRY_SLOW_MS);
}

/*
 * The timestamp to write: the clock, but never below what is known to have
 * been used under this worker id.
 */
static int64
safe_timestamp(void)
{
	return Max(Max(leaf_clock_wall_ms(), in->last_issued_ms), floor_ms);
}

/*
 * Fill in our data; remembers when, for what is learned from the answer.
 */
static const char *
stamp_data(int64 time_ms, const char *with_instance)
{
	static char data[LEAF_NODE_DATA_LEN];

	sent_wall_ms = leaf_clock_wall_ms();
	sent_mono_ms = leaf_clock_mono_ms();
	sent_lease_ms = lease_clock_ms();
	sent_time_ms = time_ms;
	leaf_node_data_write(data, sizeof(data), cluster.address, time_ms, with_instance);
	return data;
}

static void
begin_look(void)
{
	begin_stage(STAGE_LOOK);
	name.exists = false;
	leaf_zk_sync(stage_tag(OP_SYNC, 0), "/");
	leaf_zk_get(stage_tag(OP_NAME_GET, 0), name_path);
}

static void
begin_parents(void)
{
	const char *const paths[] = {forever_path, temporary_path};

	begin_stage(STAGE_PARENTS);
	parents_made = true;
	parents_refused = false;
	for (int i = 0; i < lengthof(paths); i++)
	{
		char	   *path = pstrdup(paths[i]);

		/* each part of the path, without the slash that begins it */
		for (char *at = path + 1; *at != '\0'; at++)
		{
			if (*at == '/')
			{
				*at = '\0';
				leaf_zk_create(stage_tag(OP_PARENT, 0), path, "", LEAF_ZK_PERSISTENT);
				*at = '/';
			}
		}
		leaf_zk_create(stage_tag(OP_PARENT, 0), path, "", LEAF_ZK_PERSISTENT);
		pfree(path);
	}
}

static void
begin_name(bool evict)
{
	begin_stage(STAGE_NAME);
	if (evict)
		leaf_zk_delete(stage_tag(OP_NAME_DELETE, 0), name_path, name_version);
	leaf_zk_create(stage_tag(OP_NAME_CREATE, 0), name_path,
				   stamp_data(leaf_clock_wall_ms(), instance), LEAF_ZK_EPHEMERAL);
}

static void
begin_measure(void)
{
	begin_stage(STAGE_MEASURE);
	leaf_zk_set(stage_tag(OP_NAME_SET, 0), name_path,
				stamp_data(leaf_clock_wall_ms(), instance), LEAF_ZK_ANY_VERSION);
}

static void
begin_list(void)
{
	begin_stage(STAGE_LIST);
	leaf_zk_children(stage_tag(OP_LIST_TEMPORARY, 0), temporary_path);
	leaf_zk_children(stage_tag(OP_LIST_FOREVER, 0), forever_path);
}

static void
begin_read(void)
{
	begin_stage(STAGE_READ);
	for (int i = 0; i < cluster.nnodes; i++)
	{
		char	   *path = psprintf("%s/%s-%010d", forever_path,
									cluster.nodes[i].address, cluster.nodes[i].sequence);

		leaf_zk_get(stage_tag(OP_NODE_GET, i), path);
		pfree(path);
	}
}

static void
set_node_path(int sequence)
{
	if (node_path != NULL)
		pfree(node_path);
	node_path = NULL;
	if (sequence >= 0)
		node_path = MemoryContextStrdup(TopMemoryContext,
										psprintf("%s%010d", node_prefix, sequence));
}

/*
 * Make our node again under an id.
 *
 * Leaf's nodes believe whatever the counter of forever gives them, so the
 * counter must not come to our id again: where it is below, it is moved up
 * by making nodes and deleting them, in one transaction with ours.  That
 * fails as a whole if anything came in between: another node that does the
 * same, by forever's version; a new node, by the names, which then are not
 * what they were going to be.
 */
static void
begin_restore(int sequence)
{
	LeafZkOp	ops[LEAF_ZK_MAX_OPS];
	int			nops = 0;

	set_node_path(sequence);
	begin_stage(STAGE_RESTORE);
	if (cluster.next_sequence > sequence)
	{
		leaf_zk_create(stage_tag(OP_NODE_WRITE, 0), node_path,
					   stamp_data(safe_timestamp(), NULL), LEAF_ZK_PERSISTENT);
		return;
	}

	memset(ops, 0, sizeof(ops));
	ops[nops].kind = LEAF_ZK_OP_SET;
	ops[nops].path = forever_path;
	ops[nops].data = "";
	ops[nops++].version = cluster.forever_version;
	for (int64 i = cluster.next_sequence; i <= sequence && nops + 2 <= LEAF_ZK_MAX_OPS; i++)
	{
		bool		ours = i == sequence;

		ops[nops].kind = LEAF_ZK_OP_CREATE;
		ops[nops].path = node_prefix;
		ops[nops].data = ours ? stamp_data(safe_timestamp(), NULL) : "";
		ops[nops++].mode = LEAF_ZK_SEQUENTIAL;
		ops[nops].kind = ours ? LEAF_ZK_OP_CHECK : LEAF_ZK_OP_DELETE;
		ops[nops].path = psprintf("%s%010d", node_prefix, (int) i);
		ops[nops++].version = LEAF_ZK_ANY_VERSION;
	}
	leaf_zk_multi(stage_tag(OP_NODE_WRITE, 0), ops, nops);
}

/*
 * Our node is there and ours: the id may be used.
 */
static void
grant(int sequence)
{
	int			held = lost_id >= 0 ? lost_id : held_id();

	if (held >= 0 && held != sequence)
	{
		snprintf(id_changed_text, sizeof(id_changed_text),
				 "worker id %d of this node is not its own any more in ZooKeeper, it has %d now",
				 held, sequence);
		id_changed_until = in->now.mono_ms + ID_CHANGED_ALARM_MS;
		revoked = true;
	}
	lost_id = -1;
	granted = sequence;
	registered = true;
	new_node = false;
	unclaimed = false;
	trouble[0] = '\0';
	no_auth = false;
	clear_refusal();
	begin_stage(STAGE_REGISTERED);
	retry_at = in->now.mono_ms + (int64) leaf_guc_time_report_interval * (1 + cluster.nnodes / NODES_PER_REFRESH);
}

static void
confirm_report(int64 time_ms, int64 sent_at_lease_ms)
{
	last_report_ms = time_ms;
	lease_ms = sent_at_lease_ms;
}

/*
 * All nodes are read: decide what we are among them.
 */
static void
begin_plan(void)
{
	LeafZkPlanInput plan;
	LeafZkIdPlan what;
	int			index;
	int64		age_ms = leaf_zk_cluster_now_ms(&cluster) - cluster.forever_ctime_ms;

	plan.address = cluster.address;
	plan.nodes = cluster.nodes;
	plan.nnodes = cluster.nnodes;
	plan.next_sequence = cluster.next_sequence;
	plan.held_id = held_id();
	plan.ensemble_now_ms = leaf_zk_cluster_now_ms(&cluster);
	plan.ttl_ms = ttl_ms();
	what = leaf_zk_plan_id(&plan, &index);

	new_node = what == LEAF_ZK_ID_CREATE || what == LEAF_ZK_ID_TAKE_OVER;
	if (what != LEAF_ZK_ID_USE && what != LEAF_ZK_ID_RESTORE)
	{
		if (plan.held_id >= 0)
			lost_id = plan.held_id;
		granted = -1;
	}

	/* Made in the future, it is of a server with another clock. */
	if (new_node && age_ms >= 0 && age_ms < YOUNG_CLUSTER_MS)
	{
		new_node = false;		/* not yet decided */
		retry_in(YOUNG_CLUSTER_MS - age_ms + 1);
		return;
	}
	if (new_node && in->clock_check != LEAF_CLOCK_PASSED)
	{
		clear_refusal();
		begin_stage(STAGE_WAIT_CLOCK);
		retry_at = in->now.mono_ms + RETRY_MS;
		return;
	}

	switch (what)
	{
		case LEAF_ZK_ID_USE:
			if (registered && granted == cluster.nodes[index].sequence && node_path != NULL)
			{
				grant(granted);
				break;
			}
			set_node_path(cluster.nodes[index].sequence);
			if (granted != cluster.nodes[index].sequence || unclaimed)
				floor_ms = cluster.nodes[index].timestamp_ms;
			if (!in->running && in->now.wall_ms < cluster.nodes[index].timestamp_ms)
			{
				grant(cluster.nodes[index].sequence);
				registered = false;
				unclaimed = true;
				break;
			}
			begin_stage(STAGE_CLAIM);
			leaf_zk_set(stage_tag(OP_NODE_WRITE, 0), node_path,
						stamp_data(Max(safe_timestamp(), cluster.nodes[index].timestamp_ms), NULL),
						LEAF_ZK_ANY_VERSION);
			break;

		case LEAF_ZK_ID_RESTORE:
			begin_restore(plan.held_id);
			break;

		case LEAF_ZK_ID_CREATE:
			floor_ms = 0;
			begin_stage(STAGE_CREATE);
			leaf_zk_create(stage_tag(OP_NODE_WRITE, 0), node_prefix,
						   stamp_data(safe_timestamp(), NULL), LEAF_ZK_SEQUENTIAL);
			break;

		case LEAF_ZK_ID_TAKE_OVER:
			{
				/*
				 * Only one contender can delete the node in the version that
				 * it has read, and none if the owner reports or is back: the
				 * first two steps are there to fail if it has an ephemeral.
				 * The old owner stopped half the time to live after its last
				 * report at the latest.
				 */
				const LeafZkNode *victim = &cluster.nodes[index];
				char	   *victim_name = psprintf("%s/%s", temporary_path, victim->address);
				char	   *victim_path = psprintf("%s/%s-%010d", forever_path,
												   victim->address, victim->sequence);
				LeafZkOp	ops[4];

				set_node_path(victim->sequence);
				floor_ms = Max(victim->timestamp_ms, victim->mtime_ms) + ttl_ms() / 2;
				memset(ops, 0, sizeof(ops));
				ops[0].kind = LEAF_ZK_OP_CREATE;
				ops[0].path = victim_name;
				ops[0].data = "";
				ops[0].mode = LEAF_ZK_EPHEMERAL;
				ops[1].kind = LEAF_ZK_OP_DELETE;
				ops[1].path = victim_name;
				ops[1].version = LEAF_ZK_ANY_VERSION;
				ops[2].kind = LEAF_ZK_OP_DELETE;
				ops[2].path = victim_path;
				ops[2].version = victim->version;
				ops[3].kind = LEAF_ZK_OP_CREATE;
				ops[3].path = node_path;
				ops[3].data = stamp_data(safe_timestamp(), NULL);
				ops[3].mode = LEAF_ZK_PERSISTENT;
				begin_stage(STAGE_TAKE_OVER);
				leaf_zk_multi(stage_tag(OP_NODE_WRITE, victim->sequence), ops, lengthof(ops));
				pfree(victim_name);
				pfree(victim_path);
				break;
			}

		case LEAF_ZK_ID_OUT_OF_RANGE:
			refuse(LEAF_REFUSAL_WORKER_ID_OUT_OF_RANGE,
				   ttl_ms() > 0 ?
					   "Remove nodes of servers that are gone under \"forever\", or wait until one has been silent for \"leaf.worker_id_ttl\"." :
					   "Remove nodes of servers that are gone under \"forever\" in ZooKeeper together with their parent's counter, or set \"leaf.worker_id_ttl\" to have their ids taken over.",
				   psprintf("All %d worker ids of cluster \"%s\" have been given out.",
							LEAF_MAX_WORKER_ID + 1, leaf_guc_cluster_name));
			retry_in(RETRY_SLOW_MS);
			break;
	}
}

/*
 * Whether the sequence that our new node got can be its worker id.  Another
 * node can have it only after data was put back by hand.
 */
static bool
created_sequence_is_good(void)
{
	return write_sequence >= 0 && write_sequence <= LEAF_MAX_WORKER_ID &&
		!leaf_zk_cluster_has_sequence(&cluster, write_sequence);
}

/*
 * The sequence at the end of the path of our node.
 */
static int
node_path_sequence(void)
{
	int			address_len;
	int			sequence;

	if (!leaf_node_name_parse(strrchr(node_path, '/') + 1, &address_len, &sequence))
		elog(ERROR, "unexpected node \"%s\"", node_path);
	return sequence;
}

/*
 * The stage's last answer has come.
 */
static void
end_stage(void)
{
	/* Whatever was lost is looked for once there is a connection. */
	if (write_code == LEAF_ZK_LOST)
	{
		retry_in(RETRY_MS);
		return;
	}

	switch (stage)
	{
		case STAGE_LOOK:
			if (write_code != LEAF_ZK_OK)
			{
				note_trouble("read its ephemeral node");
				break;
			}
			switch (leaf_zk_plan_name(&name, held_before))
			{
				case LEAF_ZK_NAME_HELD:
					held_before = true;
					if (cluster.offset_known)
						begin_list();
					else
					{
						measurements = 0;
						begin_measure();
					}
					break;
				case LEAF_ZK_NAME_CREATE:
					begin_name(false);
					break;
				case LEAF_ZK_NAME_EVICT:
					begin_name(true);
					break;
				case LEAF_ZK_NAME_DUPLICATE:
					granted = -1;
					refuse(LEAF_REFUSAL_DUPLICATE_NODE,
						   "Give each server its own \"leaf.node_address\"; if the other server is gone, its ephemeral node goes with its session.",
						   psprintf("Another server is registered in ZooKeeper as \"%s\".", cluster.address));
					retry_in(RETRY_MS);
					break;
			}
			break;

		case STAGE_NAME:
			if (write_code == LEAF_ZK_OK)
			{
				held_before = true;
				measurements = 0;
				begin_measure();
			}
			else if (write_code == LEAF_ZK_NO_NODE && !parents_made)
				begin_parents();
			else if (write_code == LEAF_ZK_NODE_EXISTS)
				begin_look();	/* somebody was faster; it will say who */
			else
			{
				if (write_code == LEAF_ZK_NO_NODE && parents_refused)
					write_code = LEAF_ZK_NO_AUTH;
				note_trouble("create its ephemeral node");
			}
			break;

		case STAGE_PARENTS:
			/* One that could not be made is missed by the next who needs it. */
			begin_look();
			break;

		case STAGE_MEASURE:
			if (write_code == LEAF_ZK_NO_NODE)
				begin_look();
			else if (write_code != LEAF_ZK_OK)
				note_trouble("write its ephemeral node");
			else if (++measurements < MEASUREMENTS &&
					 leaf_clock_mono_ms() - sent_mono_ms > GOOD_ROUND_TRIP_MS)
				begin_measure();
			else
				begin_list();
			break;

		case STAGE_LIST:
			if (write_code == LEAF_ZK_NO_NODE && !parents_made)
				begin_parents();
			else if (write_code != LEAF_ZK_OK)
				note_trouble("list the nodes of its cluster");
			else
			{
				parents_made = false;
				begin_read();
				if (pending == 0)
					end_stage();
			}
			break;

		case STAGE_READ:
			if (write_code != LEAF_ZK_OK)
			{
				note_trouble("read the nodes of its cluster");
				break;
			}
			cluster.read = true;
			peers_version++;
			begin_plan();
			break;

		case STAGE_CREATE:
			if (write_code != LEAF_ZK_OK)
			{
				note_trouble("create its node");
				break;
			}
			if (!created_sequence_is_good())
			{
				leaf_zk_delete(stage_tag(OP_DISCARD, 0), created_path, LEAF_ZK_ANY_VERSION);
				break;
			}
			set_node_path(write_sequence);
			confirm_report(sent_time_ms, sent_lease_ms);
			grant(write_sequence);
			retry_at = 0;		/* see ourselves among the others */
			break;

		case STAGE_RESTORE:
		case STAGE_TAKE_OVER:
			if (write_code == LEAF_ZK_OK && stage == STAGE_RESTORE)
				begin_list();	/* not all at once, perhaps */
			else if (write_code == LEAF_ZK_OK)
			{
				confirm_report(sent_time_ms, sent_lease_ms);
				grant(node_path_sequence());
				retry_at = 0;
			}
			else if (write_code == LEAF_ZK_NO_AUTH || write_code == LEAF_ZK_FAILED)
				note_trouble("create its node");
			else
			{
				/* Others were faster; not all of them again at once. */
				retry_in(10 + MyProcPid % 10 * 10);
			}
			break;

		case STAGE_CLAIM:
			if (write_code == LEAF_ZK_NO_NODE)
				begin_look();
			else if (write_code != LEAF_ZK_OK)
				note_trouble("write its node");
			else
			{
				confirm_report(sent_time_ms, sent_lease_ms);
				grant(node_path_sequence());
			}
			break;

		case STAGE_RELEASE:
			retry_in(RETRY_MS);
			break;

		case STAGE_IDLE:
		case STAGE_WAIT_CLOCK:
		case STAGE_REGISTERED:
			break;
	}
}

static void
take_report(const LeafZkReply *reply)
{
	report_pending = false;
	switch (reply->code)
	{
		case LEAF_ZK_OK:
			confirm_report(report_time_ms, report_lease_ms);
			if (leaf_clock_mono_ms() - report_mono_ms <= GOOD_ROUND_TRIP_MS)
				leaf_zk_cluster_learn_offset(&cluster, &reply->stat, report_wall_ms);
			if (refusal == LEAF_REFUSAL_FENCED)
				clear_refusal();
			break;
		case LEAF_ZK_LOST:
			break;
		case LEAF_ZK_NO_NODE:
			registered = false;
			begin_look();
			break;
		default:
			write_code = reply->code;
			write_client_code = reply->client_code;
			note_trouble("write its node");
			break;
	}
}

static bool
is_past_session(int64 owner)
{
	for (int i = 0; i < PAST_SESSIONS; i++)
	{
		if (past_sessions[i] != 0 && past_sessions[i] == owner)
			return true;
	}
	return false;
}

/*
 * Take in one answer.  Returns true if the reply is kept.
 */
static bool
take_reply(LeafZkReply *reply)
{
	OpKind		kind = reply->tag >> (TAG_INDEX_BITS + TAG_ROUND_BITS);
	int			index = (reply->tag >> TAG_ROUND_BITS) & ((1 << TAG_INDEX_BITS) - 1);
	uint32		round = reply->tag & TAG_ROUND_MASK;
	bool		kept = false;
	LeafNodeData data;

	if (kind == OP_REPORT)
	{
		if (report_pending && round == (report_no & TAG_ROUND_MASK))
			take_report(reply);
		return false;
	}
	if (round != (round_no & TAG_ROUND_MASK) || pending == 0)
		return false;

	/*
	 * What a stage fails with is its first failure, apart from those that are
	 * an answer.
	 */
	switch (kind)
	{
		case OP_SYNC:
		case OP_PARENT:
		case OP_NAME_DELETE:
		case OP_DISCARD:
			if (reply->code == LEAF_ZK_LOST)
				write_code = LEAF_ZK_LOST;
			else if (reply->code == LEAF_ZK_NO_AUTH && kind == OP_PARENT)
				parents_refused = true;
			break;

		case OP_NAME_GET:
			if (reply->code == LEAF_ZK_OK)
			{
				leaf_node_data_read(reply->text, &data);
				name.exists = true;
				name.same_instance = strcmp(data.instance, instance) == 0;
				name.this_session = reply->stat.ephemeral_owner == session_id;
				name.past_session = is_past_session(reply->stat.ephemeral_owner);
				name_version = reply->stat.version;
			}
			else if (reply->code != LEAF_ZK_NO_NODE && write_code == LEAF_ZK_OK)
			{
				write_code = reply->code;
				write_client_code = reply->client_code;
			}
			break;

		case OP_NODE_GET:
			if (reply->code == LEAF_ZK_OK || reply->code == LEAF_ZK_NO_NODE)
				leaf_zk_cluster_read(&cluster, index, reply);
			else if (write_code == LEAF_ZK_OK)
			{
				write_code = reply->code;
				write_client_code = reply->client_code;
			}
			break;

		default:
			if (reply->code != LEAF_ZK_OK)
			{
				if (write_code == LEAF_ZK_OK)
				{
					write_code = reply->code;
					write_client_code = reply->client_code;
				}
				break;
			}
			if (kind == OP_NAME_SET)
				leaf_zk_cluster_learn_offset(&cluster, &reply->stat, sent_wall_ms);
			else if (kind == OP_LIST_FOREVER)
				leaf_zk_cluster_list(&cluster, reply);
			else if (kind == OP_LIST_TEMPORARY)
			{
				leaf_zk_cluster_take_ephemerals(&cluster, reply);
				kept = true;
			}
			else if (kind == OP_NODE_WRITE && reply->text != NULL)
			{
				int			address_len;

				strlcpy(created_path, reply->text, sizeof(created_path));
				if (!leaf_node_name_parse(created_path, &address_len, &write_sequence))
					write_sequence = -1;
			}
			break;
	}

	if (--pending == 0)
	{
		if (kind == OP_DISCARD && stage == STAGE_CREATE)
			begin_list();
		else
			end_stage();
	}
	return kept;
}

static void
send_report(int64 time_ms)
{
	char		data[LEAF_NODE_DATA_LEN];

	if (!registered || report_pending)
		return;
	report_pending = true;
	report_no++;
	report_time_ms = Max(time_ms, floor_ms);
	report_wall_ms = leaf_clock_wall_ms();
	report_mono_ms = leaf_clock_mono_ms();
	report_lease_ms = lease_clock_ms();
	leaf_node_data_write(data, sizeof(data), cluster.address, report_time_ms, NULL);
	leaf_zk_set(((uint32) OP_REPORT << (TAG_INDEX_BITS + TAG_ROUND_BITS)) |
					(report_no & TAG_ROUND_MASK),
				node_path, data, LEAF_ZK_ANY_VERSION);
}

/*
 * Take note of a connection that was lost, or of a session that is another.
 */
static void
follow_session(void)
{
	bool		another = leaf_zk_session_count() != seen_session;

	if (another)
	{
		past_sessions[seen_session % PAST_SESSIONS] = session_id;
		seen_session = leaf_zk_session_count();
		session_id = leaf_zk_session_id();
	}
	if (another || !leaf_zk_connected())
	{
		if (stage != STAGE_IDLE || another)
			begin_stage(STAGE_IDLE);
		retry_at = 0;
		registered = false;
		report_pending = false;
		parents_made = false;
	}
	if (!leaf_zk_connected())
	{
		new_node = false;
		trouble[0] = '\0';
		no_auth = false;
		if (unclaimed && ttl_ms() > 0)
			granted = -1;
		unclaimed = false;
	}
}

/*
 * What is due now, apart from answers.
 */
static void
act(void)
{
	int64		now_ms = in->now.mono_ms;

	switch (stage)
	{
		case STAGE_IDLE:
		case STAGE_REGISTERED:
			/* A claim that failed waits as everything does. */
			if (leaf_zk_connected() &&
				(now_ms >= retry_at ||
				 (unclaimed && stage == STAGE_REGISTERED && in->now.wall_ms >= floor_ms)))
				begin_look();
			break;

		case STAGE_WAIT_CLOCK:
			if (in->clock_check == LEAF_CLOCK_PASSED)
				begin_list();
			else if (in->clock_check == LEAF_CLOCK_FAILED && now_ms >= retry_at)
			{
				/* Not one of the cluster while refused; measured anew then. */
				begin_stage(STAGE_RELEASE);
				leaf_zk_delete(stage_tag(OP_NAME_DELETE, 0), name_path,
							   LEAF_ZK_ANY_VERSION);
			}
			break;

		default:
			break;
	}

	if (ttl_ms() > 0 && granted >= 0 && !unclaimed)
	{
		int64		silent_ms = lease_clock_ms() - lease_ms;

		if (silent_ms > ttl_ms() / 2)
		{
			if (refusal == LEAF_REFUSAL_NONE)
				refuse(LEAF_REFUSAL_FENCED,
					   "The id is used again once ZooKeeper can be reached and nobody has taken it over.",
					   psprintf("This node could not report to ZooKeeper for half of \"leaf.worker_id_ttl\" (%d s).",
								leaf_guc_worker_id_ttl));
			if (stage == STAGE_REGISTERED)
				begin_look();
		}
		else if (silent_ms > ttl_ms() / 4)
			send_report(safe_timestamp());
	}
}

/*
 * The file says which worker id is ours, and ZooKeeper does not say anything:
 * go on with that.  Not where ids are leases, nor after we have seen that it
 * is another's.
 */
static bool
may_start_by_file(void)
{
	int64		waited_ms = in->now.mono_ms - started_at;

	if (in->file == NULL || !in->file_is_ours || ttl_ms() > 0 ||
		in->file->worker_id < 0 || in->file->worker_id > LEAF_MAX_WORKER_ID ||
		in->file->worker_id == lost_id || new_node)
		return false;
	if (config_error != NULL || trouble[0] != '\0')
		return true;
	return waited_ms >= (leaf_zk_connected() ? WEAK_START_CONNECTED_MS : WEAK_START_MS);
}

/*
 * One alarm for whatever is wrong between us and ZooKeeper.
 */
static void
update_alarm(void)
{
	char		text[LEAF_ALARM_TEXT_LEN] = "";
	const char *hint = NULL;
	bool		at_once = true;

	if (config_error != NULL)
	{
		snprintf(text, sizeof(text), "ZooKeeper can't be used: %s", config_error);
		hint = "Correct the setting and restart the server.";
	}
	else if (!leaf_zk_connected())
	{
		snprintf(text, sizeof(text), "ZooKeeper is out of reach: %s",
				 leaf_zk_trouble());
		hint = "Check the servers in \"leaf.zookeeper_servers\". A node that has its worker id goes on without them.";
		at_once = false;
	}
	else if (trouble[0] != '\0')
	{
		strlcpy(text, trouble, sizeof(text));
		hint = no_auth ?
			"Check \"leaf.zookeeper_auth\": nodes can be written with the credentials that they were made with only." :
			"It is tried again by itself.";
	}
	else if (in->now.mono_ms < id_changed_until)
	{
		strlcpy(text, id_changed_text, sizeof(text));
		hint = "The data in ZooKeeper was lost, or the id was taken over after \"leaf.worker_id_ttl\".";
	}

	if (text[0] == '\0')
		trouble_since = 0;
	else if (trouble_since == 0)
		trouble_since = in->now.mono_ms;

	if (text[0] == '\0')
	{
		if (alarm_text[0] != '\0')
			leaf_alarm_clear(LEAF_ALARM_ZOOKEEPER);
		alarm_text[0] = '\0';
	}
	else if (strcmp(text, alarm_text) != 0 &&
			 (at_once || alarm_text[0] != '\0' ||
			  in->now.mono_ms - trouble_since >= ALARM_AFTER_MS))
	{
		leaf_alarm_raise(LEAF_ALARM_ZOOKEEPER, text, hint);
		strlcpy(alarm_text, text, sizeof(alarm_text));
	}
}

/*
 * With nobody to compare with, the ensemble's clock is all there is.
 */
static void
warn_of_clock(LeafSourceResult *result)
{
	int64		distance_ms = cluster.offset_ms < 0 ? -cluster.offset_ms : cluster.offset_ms;

	if (!leaf_zk_cluster_known(&cluster) || distance_ms <= leaf_guc_clock_drift_limit ||
		!leaf_zk_cluster_is_alone(&cluster))
		return;
	snprintf(result->clock_warning, sizeof(result->clock_warning),
			 "The clock of this node is " INT64_FORMAT " ms %s that of ZooKeeper, and there is no other node to compare with.",
			 distance_ms, cluster.offset_ms > 0 ? "ahead of" : "behind");
}

/*
 * No id, and no end to it in sight.
 */
static void
refuse_for_now(LeafSourceResult *result)
{
	leaf_source_refuse(result, LEAF_REFUSAL_NO_WORKER_ID,
					   config_error ?
						   "Correct the setting and restart the server." :
						   "A node gets its worker id from ZooKeeper when it starts for the first time; it starts by itself once it has it.",
					   "%s",
					   config_error				? config_error :
						   !leaf_zk_connected() ? psprintf("ZooKeeper is out of reach: %s.", leaf_zk_trouble()) :
						   trouble[0]			? psprintf("%s.", trouble) :
												  "ZooKeeper has not answered yet.");
}

static void
answer(LeafSourceResult *result)
{
	strlcpy(result->source_state, config_error ? "disconnected" : leaf_zk_state_name(),
			sizeof(result->source_state));
	result->last_report_ms = last_report_ms;
	result->peers_version = peers_version;
	warn_of_clock(result);

	/* Above whatever was read of it. */
	if (granted < 0 && refusal == LEAF_REFUSAL_NONE && may_start_by_file())
		granted = in->file->worker_id;

	if (revoked)
	{
		result->state = LEAF_SOURCE_PENDING;
		revoked = false;
	}
	else if (refusal != LEAF_REFUSAL_NONE)
		leaf_source_refuse(result, refusal, refusal_hint, "%s", refusal_detail);
	else if (unclaimed && in->now.wall_ms >= floor_ms)
		result->state = LEAF_SOURCE_PENDING;	/* for as long as the claim takes */
	else if (granted >= 0)
	{
		result->state = LEAF_SOURCE_READY;
		result->worker_id = granted;
		result->floor_ms = floor_ms;

		/* Who takes the id over begins there (LEAF_ZK_ID_TAKE_OVER). */
		if (ttl_ms() > 0)
			result->limit_ms = last_report_ms + ttl_ms() / 2;
	}
	else if (!new_node && (no_id_since == 0 || in->now.mono_ms - no_id_since < REFUSE_AFTER_MS))
	{
		result->state = LEAF_SOURCE_PENDING;
		if (no_id_since == 0)
			no_id_since = in->now.mono_ms;
	}
	else
	{
		if (!new_node || trouble[0])
			refuse_for_now(result);
		if (new_node)
			result->state = LEAF_SOURCE_CHECK_CLOCK;
	}
	if (granted >= 0)
		no_id_since = 0;
}

static void
zookeeper_start(const LeafSourceInput *input)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	started_at = input->now.mono_ms;
	make_instance();
	leaf_zk_cluster_init(&cluster, input->self->node_address);

	if (leaf_zk_open(leaf_guc_zookeeper_servers, leaf_guc_zookeeper_session_timeout,
					 leaf_guc_zookeeper_auth, leaf_guc_zookeeper_tls, &config_error))
	{
		const char *chroot = leaf_zk_chroot();
		const char *address = cluster.address;
		const char *name_of_cluster = input->self->cluster_name;

		if (strchr(address, '/') != NULL || name_of_cluster[0] == '\0' ||
			name_of_cluster[0] == '/' || name_of_cluster[strlen(name_of_cluster) - 1] == '/')
			config_error = "\"leaf.node_address\" or \"leaf.cluster_name\" can't be part of a path.";
		forever_path = psprintf("%s/snowflake/%s/forever", chroot, name_of_cluster);
		temporary_path = psprintf("%s/snowflake/%s/temporary", chroot, name_of_cluster);
		name_path = psprintf("%s/%s", temporary_path, address);
		node_prefix = psprintf("%s/%s-", forever_path, address);
	}
	MemoryContextSwitchTo(old);
}

static void
zookeeper_step(const LeafSourceInput *input, LeafSourceResult *result)
{
	LeafZkReply *reply;

	in = input;
	turn_ms = input->now.mono_ms;
	if (config_error == NULL)
	{
		leaf_zk_step(input->now.mono_ms);
		follow_session();
		while ((reply = leaf_zk_next()) != NULL)
		{
			if (!take_reply(reply))
				free(reply);
		}
		act();
	}
	answer(result);
	update_alarm();
	in = NULL;
}

static int
zookeeper_peers(LeafPeer *rows)
{
	return leaf_zk_cluster_peers(&cluster, rows, registered, last_report_ms);
}

static bool
zookeeper_peers_known(void)
{
	return leaf_zk_cluster_known(&cluster);
}

/*
 * Wake up at that time, if the last turn did not already see it pass.
 */
static void
wake_later(LeafWaits *waits, int64 mono_ms)
{
	if (mono_ms > turn_ms)
		leaf_waits_wake_at(waits, mono_ms);
}

static void
zookeeper_waits(LeafWaits *waits)
{
	if (config_error != NULL)
		return;

	leaf_waits_add_fd(waits, leaf_zk_fd(), WL_SOCKET_READABLE);
	wake_later(waits, leaf_zk_wake_at());
	if (leaf_zk_connected() &&
		(stage == STAGE_IDLE || stage == STAGE_REGISTERED || stage == STAGE_WAIT_CLOCK))
		wake_later(waits, retry_at);
	if (granted < 0)
	{
		wake_later(waits, started_at + WEAK_START_MS);
		wake_later(waits, started_at + WEAK_START_CONNECTED_MS);
		wake_later(waits, no_id_since + REFUSE_AFTER_MS);
	}
	else if (unclaimed && stage == STAGE_REGISTERED)
		wake_later(waits, turn_ms + Max(floor_ms - leaf_clock_wall_ms(), 1));
	else if (ttl_ms() > 0)
	{
		int64		lease_end_ms = turn_ms + lease_ms - lease_clock_ms();

		wake_later(waits, lease_end_ms + ttl_ms() / 4 + 1);
		wake_later(waits, lease_end_ms + ttl_ms() / 2 + 1);
	}
	if (alarm_text[0] == '\0' && trouble_since != 0)
		wake_later(waits, trouble_since + ALARM_AFTER_MS);
	wake_later(waits, id_changed_until);
}

/*
 * A last report, so that the next start knows where we ended even without
 * our file, and the end of the session, so that our address is free.
 */
static void
zookeeper_stop(int64 last_issued_ms)
{
	if (config_error != NULL)
		return;
	if (last_issued_ms > last_report_ms)
	{
		report_pending = false;
		send_report(last_issued_ms);
	}
	leaf_zk_close(STOP_WAIT_MS);
}

const LeafSourceRoutine leaf_source_zookeeper = {
	.name = "zookeeper",
	.start = zookeeper_start,
	.step = zookeeper_step,
	.report = send_report,
	.peers = zookeeper_peers,
	.peers_known = zookeeper_peers_known,
	.waits = zookeeper_waits,
	.stop = zookeeper_stop,
};
