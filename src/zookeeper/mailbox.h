/*
 * mailbox.h
 *		Where the threads of the ZooKeeper client leave word for the loop.
 *
 * libzookeeper-mt runs two threads in the node worker, and name resolution
 * is a third.  None of them may run code of PostgreSQL: no palloc, ereport,
 * latch or lock of the server.  What they have to say they put into this
 * mailbox, which is plain memory under a mutex, and write a byte to a pipe.
 * The loop polls the pipe, and takes everything out at once.
 *
 * Functions named post may be called by any thread; all others by the
 * process's main thread alone.  No function blocks for longer than it takes
 * to copy a few hundred bytes, and none is called with the mutex held.
 */
#ifndef LEAF_ZOOKEEPER_MAILBOX_H
#define LEAF_ZOOKEEPER_MAILBOX_H

#include "postgres.h"

/* How an operation ended. */
typedef enum LeafZkCode
{
	LEAF_ZK_OK,
	LEAF_ZK_NO_NODE,
	LEAF_ZK_NODE_EXISTS,
	LEAF_ZK_BAD_VERSION,
	LEAF_ZK_NO_AUTH,
	LEAF_ZK_LOST,				/* no answer: it may have happened or not */
	LEAF_ZK_FAILED,				/* anything else: it has not happened */
} LeafZkCode;

/* What leaf needs of a node's stat; times are the ensemble's clock. */
typedef struct LeafZkStat
{
	int64		created_txn;	/* czxid: the order in which nodes were made */
	int64		ctime_ms;		/* creation, ms since 1970 */
	int64		mtime_ms;		/* last write */
	int64		ephemeral_owner;	/* session id; 0: persistent */
	int32		version;		/* of the data */
	int32		child_changes;	/* children made and deleted, ever */
	int32		children;		/* now */
} LeafZkStat;

/*
 * The answer to one operation.  One block of malloc'd memory; text and names
 * point into it.
 */
typedef struct LeafZkReply
{
	struct LeafZkReply *next;
	uint32		tag;			/* as the caller of the operation gave it */
	LeafZkCode	code;
	int			client_code;	/* the client library's, for messages */
	LeafZkStat	stat;			/* get, set, create, children */
	char	   *text;			/* get: the data; create: the path; or NULL */
	int			nnames;			/* children */
	char	  **names;
} LeafZkReply;

/* The session as the client's threads see it. */
typedef enum LeafZkLink
{
	LEAF_ZK_LINK_DOWN,			/* no handle, or not connected */
	LEAF_ZK_LINK_UP,
	LEAF_ZK_LINK_EXPIRED,		/* the session is gone for good */
	LEAF_ZK_LINK_AUTH_FAILED,	/* likewise */
} LeafZkLink;

/* With this a session is continued on another connection. */
typedef struct LeafZkSessionKey
{
	int64		id;				/* 0: no session */
	char		password[16];
} LeafZkSessionKey;

#define LEAF_ZK_LOG_LINE_LEN 256
#define LEAF_ZK_LOG_LINES 32

/* Everything that has come in since the last look. */
typedef struct LeafMailboxNews
{
	LeafZkReply *replies;		/* oldest first; the taker frees them */
	bool		link_changed;
	LeafZkLink	link;
	LeafZkSessionKey key;		/* where link is UP */
	bool		resolved;		/* a resolver has finished ... */
	char	   *addresses;		/* ... with these, or NULL; the taker frees */
	int			nlines;			/* log lines of the client */
	int			lines_lost;
	char		lines[LEAF_ZK_LOG_LINES][LEAF_ZK_LOG_LINE_LEN];
} LeafMailboxNews;

/* Make the pipe; false and errno if that fails.  Once a process. */
extern bool leaf_mailbox_open(void);

/* The end of the pipe to wait for. */
extern int	leaf_mailbox_fd(void);

/* Empty the pipe and the mailbox into *news. */
extern void leaf_mailbox_take(LeafMailboxNews *news);

/*
 * Forget replies and link state, but not log lines: the handle that they are
 * about is closed.
 */
extern void leaf_mailbox_forget_handle(void);

extern void leaf_mailbox_post_reply(LeafZkReply *reply);
extern void leaf_mailbox_post_link(LeafZkLink link, const LeafZkSessionKey *key);
extern void leaf_mailbox_post_resolved(char *addresses);
extern void leaf_mailbox_post_line(const char *line);
extern void leaf_mailbox_post_closed(void);

/* Wait until post_closed was called, no longer than wait_ms. */
extern bool leaf_mailbox_wait_closed(int wait_ms);

/*
 * Make a reply, with room for a text of text_len bytes (negative: none) and
 * for nnames names of names_len bytes in all, terminators not counted.  NULL
 * if there is no memory.  Any thread.
 */
extern LeafZkReply *leaf_zk_reply_make(uint32 tag, const char *text, int text_len,
									   char *const *names, int nnames);

#endif							/* LEAF_ZOOKEEPER_MAILBOX_H */
