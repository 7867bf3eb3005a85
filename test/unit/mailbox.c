/*
 * mailbox.c
 *		The mailbox under many threads; to be run under a race detector.
 */
#include "unit.h"

#include <poll.h>
#include <pthread.h>

#include "zookeeper/mailbox.h"

#define THREADS 4
#define ROUNDS 2000

static void *
post(void *arg)
{
	uint32		thread = (uint32) (uintptr_t) arg;
	char		first[] = "first";
	char		second[] = "second";
	char	   *names[] = {first, second};
	LeafZkSessionKey key = {thread, "password"};

	for (uint32 i = 0; i < ROUNDS; i++)
	{
		leaf_mailbox_post_reply(leaf_zk_reply_make(thread * ROUNDS + i, "text", 4, names, 2));
		leaf_mailbox_post_link(i % 2 ? LEAF_ZK_LINK_UP : LEAF_ZK_LINK_DOWN, &key);
		leaf_mailbox_post_line("2026-01-01:ZOO_WARN@place@1: text");
		if (i % 100 == 0)
			leaf_mailbox_post_resolved(strdup("127.0.0.1:2181"));
	}
	return NULL;
}

int
main(void)
{
	static LeafMailboxNews news;
	pthread_t	threads[THREADS];
	uint32		next[THREADS];
	int			replies = 0;
	int			lines = 0;
	int			links = 0;
	int			resolved = 0;
	int			wakes = 0;
	bool		in_order = true;
	bool		intact = true;

	ok(leaf_mailbox_open(), "open");
	for (int i = 0; i < THREADS; i++)
	{
		next[i] = i * ROUNDS;
		pthread_create(&threads[i], NULL, post, (void *) (uintptr_t) i);
	}

	/* As the loop does: wait on the pipe, take all. */
	while (replies < THREADS * ROUNDS || lines < THREADS * ROUNDS)
	{
		struct pollfd fd = {leaf_mailbox_fd(), POLLIN, 0};

		if (poll(&fd, 1, 10000) != 1)
			break;
		wakes++;
		leaf_mailbox_take(&news);
		while (news.replies != NULL)
		{
			LeafZkReply *reply = news.replies;
			int			thread = reply->tag / ROUNDS;

			in_order = in_order && reply->tag == next[thread]++;
			intact = intact && strcmp(reply->text, "text") == 0 &&
				reply->nnames == 2 && strcmp(reply->names[1], "second") == 0;
			replies++;
			news.replies = reply->next;
			free(reply);
		}
		lines += news.nlines + news.lines_lost;
		for (int i = 0; i < news.nlines; i++)
			intact = intact && strcmp(news.lines[i], "2026-01-01:ZOO_WARN@place@1: text") == 0;
		links += news.link_changed;
		resolved += news.resolved;
		if (news.resolved)
			intact = intact && strcmp(news.addresses, "127.0.0.1:2181") == 0;
		free(news.addresses);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);

	ok(replies == THREADS * ROUNDS, "every reply arrives");
	ok(in_order, "those of one thread in their order");
	ok(intact, "and intact");
	ok(lines == THREADS * ROUNDS, "every log line arrives or is counted");
	ok(links > 0 && resolved > 0 && wakes > 0, "so do the rest");

	/* What is left is nothing, and the pipe is empty. */
	leaf_mailbox_take(&news);
	free(news.addresses);
	leaf_mailbox_take(&news);
	ok(news.replies == NULL && !news.link_changed && !news.resolved && news.nlines == 0,
	   "taken is taken");
	{
		struct pollfd fd = {leaf_mailbox_fd(), POLLIN, 0};

		ok(poll(&fd, 1, 0) == 0, "nothing wakes for nothing");
	}

	leaf_mailbox_post_reply(leaf_zk_reply_make(1, NULL, 0, NULL, 0));
	leaf_mailbox_post_link(LEAF_ZK_LINK_UP, NULL);
	leaf_mailbox_forget_handle();
	leaf_mailbox_take(&news);
	ok(news.replies == NULL && !news.link_changed, "a closed handle's are forgotten");

	ok(!leaf_mailbox_wait_closed(10), "waiting for the close ends");
	leaf_mailbox_post_closed();
	ok(leaf_mailbox_wait_closed(10000), "or is over with it");
	return done();
}
