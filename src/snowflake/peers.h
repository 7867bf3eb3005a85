/*
 * peers.h
 *		The peers' time by RPC: leaf.peers.
 *
 * A round asks every address that the setting's host names resolve to for
 * its time, side by side, without ever blocking the caller: names are
 * resolved in a thread, connections are libpq's asynchronous ones.  Only the
 * node worker calls these.
 */
#ifndef LEAF_SNOWFLAKE_PEERS_H
#define LEAF_SNOWFLAKE_PEERS_H

#include "postgres.h"

#include "snowflake/source.h"

/* How long a peer may take to answer. */
#define LEAF_PEERS_ROUND_MS 2000

/* More addresses than this are not asked. */
#define LEAF_PEERS_ASKED_MAX 128

typedef struct LeafPeersResult
{
	int			asked;			/* without ourselves */
	int			answered;
	double		mean_offset_ms; /* peers' mean minus our clock; answered > 0 */
	char		error[LEAF_DETAIL_LEN]; /* of one that did not answer; "" */
} LeafPeersResult;

/* Whether leaf.peers is set. */
extern bool leaf_peers_configured(void);

/* Begin a round, unless one is under way. */
extern void leaf_peers_begin(int64 now_mono_ms);

/*
 * Go on with the round; true in the turn in which it ends, with its result.
 */
extern bool leaf_peers_step(int64 now_mono_ms, LeafPeersResult *result);

/* What wakes the round. */
extern void leaf_peers_waits(LeafWaits *waits);

/* The peers as of the last round that ended; returns how many. */
extern int	leaf_peers_rows(LeafPeer *rows);

#endif							/* LEAF_SNOWFLAKE_PEERS_H */
