/*
 * mailbox.c
 *		Where the threads of the ZooKeeper client leave word for the loop.
 *
 * This file uses libc and pthreads only, also where it runs in the main
 * thread, so that it can be tested alone under a race detector.
 */
#include "postgres.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "zookeeper/mailbox.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t closed_cond;	/* on the monotonic clock */

/* All below is guarded by the mutex, but the pipe, which never changes. */
static LeafZkReply *first_reply = NULL;
static LeafZkReply *last_reply = NULL;
static bool link_changed = false;
static LeafZkLink link_now = LEAF_ZK_LINK_DOWN;
static LeafZkSessionKey key_now;
static bool resolved = false;
static char *addresses = NULL;
static bool closed = false;
static int	nlines = 0;
static int	lines_lost = 0;
static char lines[LEAF_ZK_LOG_LINES][LEAF_ZK_LOG_LINE_LEN];

static int	wake_pipe[2] = {-1, -1};

bool
leaf_mailbox_open(void)
{
	pthread_condattr_t attr;

	if (wake_pipe[0] >= 0)
		return true;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&closed_cond, &attr);
	pthread_condattr_destroy(&attr);

	if (pipe(wake_pipe) != 0)
		return false;
	for (int i = 0; i < 2; i++)
	{
		if (fcntl(wake_pipe[i], F_SETFL, O_NONBLOCK) != 0 ||
			fcntl(wake_pipe[i], F_SETFD, FD_CLOEXEC) != 0)
			return false;
	}
	return true;
}

int
leaf_mailbox_fd(void)
{
	return wake_pipe[0];
}

/*
 * A full pipe is as good as a written one: the loop has not looked yet.  The
 * callers are in the middle of somebody else's work, so errno is kept.
 */
static void
wake_loop(void)
{
	int			save_errno = errno;
	ssize_t		rc;

	do
		rc = write(wake_pipe[1], "", 1);
	while (rc < 0 && errno == EINTR);
	errno = save_errno;
}

void
leaf_mailbox_take(LeafMailboxNews *news)
{
	char		scratch[256];
	ssize_t		rc;

	/* The pipe first: what is posted from now on wakes the loop again. */
	do
		rc = read(wake_pipe[0], scratch, sizeof(scratch));
	while (rc == sizeof(scratch) || (rc < 0 && errno == EINTR));

	pthread_mutex_lock(&mutex);
	news->replies = first_reply;
	first_reply = last_reply = NULL;
	news->link_changed = link_changed;
	news->link = link_now;
	news->key = key_now;
	link_changed = false;
	news->resolved = resolved;
	news->addresses = addresses;
	resolved = false;
	addresses = NULL;
	news->nlines = nlines;
	news->lines_lost = lines_lost;
	memcpy(news->lines, lines, nlines * sizeof(lines[0]));
	nlines = lines_lost = 0;
	pthread_mutex_unlock(&mutex);
}

void
leaf_mailbox_forget_handle(void)
{
	LeafZkReply *reply;

	pthread_mutex_lock(&mutex);
	reply = first_reply;
	first_reply = last_reply = NULL;
	link_changed = false;
	link_now = LEAF_ZK_LINK_DOWN;
	pthread_mutex_unlock(&mutex);

	while (reply != NULL)
	{
		LeafZkReply *next = reply->next;

		free(reply);
		reply = next;
	}
}

void
leaf_mailbox_post_reply(LeafZkReply *reply)
{
	reply->next = NULL;
	pthread_mutex_lock(&mutex);
	if (last_reply != NULL)
		last_reply->next = reply;
	else
		first_reply = reply;
	last_reply = reply;
	pthread_mutex_unlock(&mutex);
	wake_loop();
}

/*
 * key only with LEAF_ZK_LINK_UP.
 */
void
leaf_mailbox_post_link(LeafZkLink link, const LeafZkSessionKey *key)
{
	pthread_mutex_lock(&mutex);
	link_now = link;
	if (key != NULL)
		key_now = *key;
	link_changed = true;
	pthread_mutex_unlock(&mutex);
	wake_loop();
}

/*
 * addresses is malloc'd and given away; NULL if no name could be resolved.
 */
void
leaf_mailbox_post_resolved(char *new_addresses)
{
	pthread_mutex_lock(&mutex);
	free(addresses);
	addresses = new_addresses;
	resolved = true;
	pthread_mutex_unlock(&mutex);
	wake_loop();
}

void
leaf_mailbox_post_line(const char *line)
{
	pthread_mutex_lock(&mutex);
	if (nlines < LEAF_ZK_LOG_LINES)
	{
		size_t		len = strnlen(line, LEAF_ZK_LOG_LINE_LEN - 1);

		memcpy(lines[nlines], line, len);
		lines[nlines][len] = '\0';
		nlines++;
	}
	else
		lines_lost++;
	pthread_mutex_unlock(&mutex);
	wake_loop();
}

void
leaf_mailbox_post_closed(void)
{
	pthread_mutex_lock(&mutex);
	closed = true;
	pthread_cond_signal(&closed_cond);
	pthread_mutex_unlock(&mutex);
}

bool
leaf_mailbox_wait_closed(int wait_ms)
{
	struct timespec until;
	int			rc = 0;
	bool		result;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += wait_ms / 1000;
	until.tv_nsec += (wait_ms % 1000) * 1000000L;
	if (until.tv_nsec >= 1000000000L)
	{
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}

	pthread_mutex_lock(&mutex);
	while (!closed && rc == 0)
		rc = pthread_cond_timedwait(&closed_cond, &mutex, &until);
	result = closed;
	pthread_mutex_unlock(&mutex);
	return result;
}

/*
 * One malloc: the struct, the array of names, then all strings.
 */
LeafZkReply *
leaf_zk_reply_make(uint32 tag, const char *text, int text_len,
				   char *const *names, int nnames)
{
	Size		size = sizeof(LeafZkReply) + nnames * sizeof(char *);
	LeafZkReply *reply;
	char	   *at;

	if (text != NULL)
		size += text_len + 1;
	for (int i = 0; i < nnames; i++)
		size += strlen(names[i]) + 1;

	reply = calloc(1, size);
	if (reply == NULL)
		return NULL;
	reply->tag = tag;
	reply->nnames = nnames;
	reply->names = (char **) (reply + 1);
	at = (char *) (reply->names + nnames);
	if (text != NULL)
	{
		memcpy(at, text, text_len);
		reply->text = at;
		at += text_len + 1;
	}
	for (int i = 0; i < nnames; i++)
	{
		size_t		len = strlen(names[i]) + 1;

		memcpy(at, names[i], len);
		reply->names[i] = at;
		at += len;
	}
	return reply;
}
