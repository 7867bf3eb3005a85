/*
 * session.h
 *		An asynchronous ZooKeeper session for a single-threaded loop.
 *
 * The loop calls leaf_zk_step() each turn, starts operations while
 * leaf_zk_connected(), and pulls their answers with leaf_zk_next().  Nothing
 * here blocks: names are resolved in a thread of their own, the client
 * library talks to the servers in its two threads, and all three reach the
 * loop through the mailbox (mailbox.h) only.
 *
 * What happens without being asked for: a lost connection is restored by the
 * client library within the same session; an expired session is replaced by
 * a new one at once; names that do not resolve, or a session that can't be
 * made, are tried again with a growing pause.
 *
 * The chroot is not the library's business here: it would not create it.
 * Callers put leaf_zk_chroot() before their paths.
 *
 * One session a process.  Everything is called by the main thread.
 */
#ifndef LEAF_ZOOKEEPER_SESSION_H
#define LEAF_ZOOKEEPER_SESSION_H

#include "postgres.h"

#include "zookeeper/mailbox.h"

/* Tags are the caller's, below this. */
#define LEAF_ZK_TAG_LIMIT (1U << 31)

/* How a node is created; may be combined. */
#define LEAF_ZK_PERSISTENT 0
#define LEAF_ZK_EPHEMERAL 1
#define LEAF_ZK_SEQUENTIAL 2

/* A version that is never compared. */
#define LEAF_ZK_ANY_VERSION (-1)

/* One step of an all-or-nothing operation. */
typedef struct LeafZkOp
{
	enum
	{
		LEAF_ZK_OP_CREATE,
		LEAF_ZK_OP_SET,
		LEAF_ZK_OP_DELETE,
		LEAF_ZK_OP_CHECK,		/* the node is there, in that version */
	}			kind;
	const char *path;
	const char *data;			/* create, set */
	int			mode;			/* create */
	int32		version;		/* set, delete, check */
} LeafZkOp;

#define LEAF_ZK_MAX_OPS 256

/*
 * Begin.  servers: 'h1:2181,h2:2181[/chroot]'; auth: 'digest:user:password'
 * or ''; tls: 'ca-file,certificate-file,key-file[,password]' or ''.  False with a sentence in *error if they can't be understood; then
 * there is never a session.
 */
extern bool leaf_zk_open(const char *servers, int session_timeout_ms,
						 const char *auth, const char *tls, const char **error);

/* Take in what has happened; mono_ms is the monotonic clock. */
extern void leaf_zk_step(int64 mono_ms);

/* The next answer, or NULL; free() it. */
extern LeafZkReply *leaf_zk_next(void);

/* When to call step() again at the latest, in monotonic ms; 0: no matter. */
extern int64 leaf_zk_wake_at(void);

/* Readable when there is something to take in. */
extern int	leaf_zk_fd(void);

extern bool leaf_zk_connected(void);

/*
 * Counts the sessions of this process.  A new value means that the last
 * session's ephemerals and unanswered operations are gone.
 */
extern uint32 leaf_zk_session_count(void);

/* The current session's id, as in LeafZkStat.ephemeral_owner; 0: none. */
extern int64 leaf_zk_session_id(void);

/*
 * Why there is no connection, as far as it is known: 'could not resolve ...'
 * and the like.  "" if nothing is known.
 */
extern const char *leaf_zk_trouble(void);

/* "disconnected", "connected" and so on, for the view. */
extern const char *leaf_zk_state_name(void);

/* The chroot without a slash at its end; "" if there is none. */
extern const char *leaf_zk_chroot(void);

/* What a client code means, in the library's words. */
extern const char *leaf_zk_code_text(int client_code);

/*
 * End the session so that its ephemerals go at once, taking no longer than
 * wait_ms.  The process must end after it: a server that does not answer
 * leaves a thread behind.
 */
extern void leaf_zk_close(int wait_ms);

/*
 * Operations.  Each gets exactly one answer with its tag, LEAF_ZK_LOST if
 * there is no connection.  Nodes are created readable by all and, with auth,
 * writable by that user alone.
 */
extern void leaf_zk_create(uint32 tag, const char *path, const char *data, int mode);
extern void leaf_zk_get(uint32 tag, const char *path);
extern void leaf_zk_set(uint32 tag, const char *path, const char *data, int32 version);
extern void leaf_zk_delete(uint32 tag, const char *path, int32 version);
extern void leaf_zk_children(uint32 tag, const char *path);

/* Answered once the server has caught up with the ensemble's leader. */
extern void leaf_zk_sync(uint32 tag, const char *path);

/* At most one at a time. */
extern void leaf_zk_multi(uint32 tag, const LeafZkOp *ops, int nops);

#endif							/* LEAF_ZOOKEEPER_SESSION_H */
