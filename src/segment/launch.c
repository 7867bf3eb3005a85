/*
 * launch.c
 *		Requests for a refill, and the start of the workers that serve them.
 *
 * One refill worker a database, started by the backend that needs it:
 *
 *		FREE --request--> STARTING --attach--> RUNNING --exit--> FREE
 *
 * A start that never arrives (the postmaster could not fork, the database
 * could not be opened) is tried again by the next request after a while, with
 * another token: a worker that finds its token outdated leaves at once.  A
 * worker that failed before it served anything makes the next start wait,
 * longer each time, so that no failure is repeated in a hot loop.
 *
 * All fields are guarded by LEAF_LOCK_WORKERS, and so are the slots' request
 * fields; "requested" may be read without it, as a hint.  A slot whose request
 * is set is in its worker's list or in the worker's hands; whoever clears it
 * wakes those who wait for the slot, who then look and may ask again.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"

#include "alarm.h"
#include "compat.h"
#include "monotonic.h"
#include "segment/launch.h"
#include "segment/segment.h"
#include "shmem.h"

/* A start that did not arrive after this long is given up. */
#define START_TIMEOUT_US (INT64CONST(10) * USECS_PER_SEC)

/* The pause before the next start doubles with each failure, up to this. */
#define MIN_START_PAUSE_US (INT64CONST(100) * 1000)
#define MAX_START_PAUSE_US (INT64CONST(10) * USECS_PER_SEC)

/* A dismissed worker that is still there after this long is terminated. */
#define DISMISS_PATIENCE_US (INT64CONST(300) * 1000)

/* And waited for no longer than this; the command has a patience of its own. */
#define DISMISS_TIMEOUT_US (INT64CONST(2) * USECS_PER_SEC)

typedef enum WorkerState
{
	WORKER_FREE,
	WORKER_STARTING,
	WORKER_RUNNING,
} WorkerState;

typedef struct Worker
{
	WorkerState state;
	Oid			dboid;			/* kept while free, for the pause */
	uint32		token;			/* of the latest start */
	int64		started_us;		/* when it was started last, monotonic */
	int64		start_pause_us; /* the least time between two starts */
	pid_t		pid;			/* while running */
	Latch	   *latch;			/* while running */
	bool		dismissed;		/* asked to leave */
	bool		no_slot;		/* the latest start found no free background worker */
	bool		urgent;			/* somebody has begun to wait */
	int			first_request;	/* slots to refill; -1: none */
} Worker;

/* max_worker_processes of them. */
static Worker *workers = NULL;

/* The entry of this process, if it is a refill worker; -1: it is not. */
static int	my_worker = -1;

Size
leaf_launch_shmem_size(void)
{
	return mul_size(Max(max_worker_processes, 1), sizeof(Worker));
}

void
leaf_launch_shmem_init(void *ptr, bool found)
{
	workers = ptr;
	if (found)
		return;
	memset(workers, 0, leaf_launch_shmem_size());
	for (int i = 0; i < max_worker_processes; i++)
		workers[i].first_request = -1;
}

/*
 * The entry for a database; a free one is taken over if "create".  -1: none.
 */
static int
find_worker(Oid dboid, bool create)
{
	int			unused = -1;

	for (int i = 0; i < max_worker_processes; i++)
	{
		if (workers[i].dboid == dboid)
			return i;
		if (workers[i].state == WORKER_FREE &&
			(unused < 0 || !OidIsValid(workers[i].dboid)))
			unused = i;
	}
	if (create && unused >= 0)
	{
		workers[unused].dboid = dboid;
		workers[unused].start_pause_us = 0;
		workers[unused].started_us = 0;
		workers[unused].no_slot = false;
		return unused;
	}
	return -1;
}

static bool
register_worker(int index, uint32 token, Oid dboid)
{
	BackgroundWorker worker = {0};
	LeafLaunchArgs args = {index, token, dboid};

	snprintf(worker.bgw_name, BGW_MAXLEN, "leaf refill for database %u", dboid);
	strlcpy(worker.bgw_type, "leaf refill", BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, "leaf", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "leaf_refill_main", BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION |
		BGWORKER_INTERRUPTIBLE;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	StaticAssertStmt(sizeof(args) <= BGW_EXTRALEN, "worker arguments do not fit");
	memcpy(worker.bgw_extra, &args, sizeof(args));
	return RegisterDynamicBackgroundWorker(&worker, NULL);
}

/*
 * Is it time to start a worker?  Then the entry is marked as starting.
 */
static bool
claim_start(Worker *worker)
{
	int64		now = leaf_monotonic_us();

	if (worker->state == WORKER_RUNNING)
		return false;
	if (now - worker->started_us <
			(worker->state == WORKER_STARTING ? START_TIMEOUT_US : worker->start_pause_us) &&
		worker->started_us != 0)
		return false;
	worker->state = WORKER_STARTING;
	worker->token++;
	worker->started_us = now;
	worker->dismissed = false;
	return true;
}

/*
 * The slot was asked for by another database, and has come to a tag of this
 * one since: take it out of that one's list, which may have no worker to serve
 * it.  If it is in a worker's hands, that one will give it back.  The caller
 * holds LEAF_LOCK_WORKERS.
 */
static void
withdraw_foreign_request(LeafSlot *slot)
{
	int		   *link = &workers[slot->request_worker].first_request;

	while (*link >= 0 && *link != leaf_slot_index(slot))
		link = &leaf_slot_by_index(*link)->next_request;
	if (*link < 0)
		return;
	*link = slot->next_request;
	pg_atomic_write_u32(&slot->buffer.requested, 0);
}

/*
 * Ask for a segment for the slot, which must be one of this database.  Starts
 * the worker if there is none.  "urgent": somebody begins to wait for it.
 */
LeafLaunch
leaf_launch_request(LeafSlot *slot, bool urgent)
{
	LeafLaunch	result = LEAF_LAUNCH_NO_WORKER;
	int			index;
	bool		wake = urgent;
	bool		start = false;
	uint32		token = 0;

	if (IsBinaryUpgrade)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot reserve ids during pg_upgrade"),
				 errhint("Draw ids from the upgraded server.")));

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_WORKERS), LW_EXCLUSIVE);
	index = find_worker(MyDatabaseId, true);
	if (index >= 0)
	{
		Worker	   *worker = &workers[index];

		if (pg_atomic_read_u32(&slot->buffer.requested) != 0 &&
			slot->request_worker != index)
			withdraw_foreign_request(slot);
		if (pg_atomic_read_u32(&slot->buffer.requested) == 0)
		{
			slot->next_request = worker->first_request;
			slot->request_worker = index;
			worker->first_request = leaf_slot_index(slot);
			pg_atomic_write_u32(&slot->buffer.requested, 1);
			wake = true;
		}
		worker->urgent |= urgent;
		if (wake && worker->state == WORKER_RUNNING)
			SetLatch(worker->latch);
		start = claim_start(worker);
		token = worker->token;
		if (start || !worker->no_slot)
			result = LEAF_LAUNCH_OK;
	}
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_WORKERS));

	if (start && !register_worker(index, token, MyDatabaseId))
	{
		LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_WORKERS), LW_EXCLUSIVE);
		if (workers[index].token == token && workers[index].state == WORKER_STARTING)
		{
			workers[index].state = WORKER_FREE;
			workers[index].start_pause_us = MIN_START_PAUSE_US;
			workers[index].no_slot = true;
		}
		LWLockRelease(leaf_shmem_lock(LEAF_LOCK_WORKERS));
		result = LEAF_LAUNCH_NO_WORKER;
	}
	if (result == LEAF_LAUNCH_NO_WORKER && (start || index < 0))
		leaf_alarm_raise(LEAF_ALARM_REFILL_WORKER,
						 "there is no free background worker to reserve segments",
						 "Raise \"max_worker_processes\": leaf needs one for each database that draws ids, besides those of parallel queries and of other extensions.");
	return result;
}

/*
 * Clear the requests of a worker that leaves, of those in its list and of
 * those in its hands.  The caller holds LEAF_LOCK_WORKERS.
 */
static void
clear_requests(int index)
{
	for (int i = 0; i < leaf_slot_count(); i++)
	{
		LeafSlot   *slot = leaf_slot_by_index(i);

		if (pg_atomic_read_u32(&slot->buffer.requested) != 0 &&
			slot->request_worker == index)
		{
			pg_atomic_write_u32(&slot->buffer.requested, 0);
			ConditionVariableBroadcast(&slot->changed);
		}
	}
	workers[index].first_request = -1;
}

/* The caller holds LEAF_LOCK_WORKERS. */
static void
detach_locked(void)
{
	Worker	   *worker = &workers[my_worker];

	worker->state = WORKER_FREE;
	worker->pid = 0;
	worker->latch = NULL;
	if (worker->dismissed)
		worker->start_pause_us = 0; /* it did not fail */
	clear_requests(my_worker);
	my_worker = -1;
}

static void
detach_at_exit(int code, Datum arg)
{
	if (my_worker < 0)
		return;
	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_WORKERS), LW_EXCLUSIVE);
	detach_locked();
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_WORKERS));
}

/*
 * This process is the worker that the entry waits for.  False: it is not, or
 * not any more, and has to leave.
 */
bool
leaf_launch_attach(int index, uint32 token)
{
	Worker	   *worker = &workers[index];
	bool		ours;

	before_shmem_exit(detach_at_exit, 0);

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_WORKERS), LW_EXCLUSIVE);
	ours = worker->state == WORKER_STARTING && worker->token == token;
	if (ours)
	{
		my_worker = index;
		worker->state = WORKER_RUNNING;
		worker->pid = MyProcPid;
		worker->latch = MyLatch;
		worker->no_slot = false;
		/* Until it has served something, it may be one that fails. */
		worker->start_pause_us = Min(Max(worker->start_pause_us * 2, MIN_START_PAUSE_US),
									 MAX_START_PAUSE_US);
	}
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_WORKERS));

	/* Workers that were there all along do not end the alarm. */
	if (ours)
		leaf_alarm_clear(LEAF_ALARM_REFILL_WORKER);
	return ours;
}

/* It has served something: the next start need not wait. */
void
leaf_launch_worker_is_fine(void)
{
	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_WORKERS), LW_EXCLUSIVE);
	workers[my_worker].start_pause_us = 0;
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_WORKERS));
}

/*
 * Take the slots that ask for a refill; they stay requested until
 * leaf_launch_requests_done.
 */
int
leaf_launch_take_requests(LeafSlot **slots, int max)
{
	Worker	   *worker = &workers[my_worker];
	int			n = 0;

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_WORKERS), LW_EXCLUSIVE);
	while (n < max && worker->first_request >= 0)
	{
		LeafSlot   *slot = leaf_slot_by_index(worker->first_request);

		worker->first_request = slot->next_request;
		slots[n++] = slot;
	}
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_WORKERS));
	return n;
}

/* Has somebody begun to wait since the last time? */
bool
leaf_launch_take_urgency(void)
{
	bool		urgent;

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_WORKERS), LW_EXCLUSIVE);
	urgent = workers[my_worker].urgent;
	workers[my_worker].urgent = false;
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_WORKERS));
	return urgent;
}

void
leaf_launch_requests_done(LeafSlot **slots, int n)
{
	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_WORKERS), LW_EXCLUSIVE);
	for (int i = 0; i < n; i++)
		pg_atomic_write_u32(&slots[i]->buffer.requested, 0);
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_WORKERS));

	for (int i = 0; i < n; i++)
		ConditionVariableBroadcast(&slots[i]->changed);
}

bool
leaf_launch_dismissed(void)
{
	bool		dismissed;

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_WORKERS), LW_SHARED);
	dismissed = workers[my_worker].dismissed;
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_WORKERS));
	return dismissed;
}

/*
 * Give up the entry if nothing is asked of it.  True: the worker has to exit
 * now; a request that comes later starts another one.
 */
bool
leaf_launch_leave_if_idle(void)
{
	bool		idle;

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_WORKERS), LW_EXCLUSIVE);
	idle = workers[my_worker].first_request < 0;
	if (idle)
		detach_locked();
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_WORKERS));
	return idle;
}

/*
 * Make the worker of a database leave, and wait until it is out of the way of
 * CountOtherDBBackends.
 */
void
leaf_launch_dismiss(Oid dboid)
{
	int64		begin = leaf_monotonic_us();
	bool		terminated = false;
	pid_t		pid = 0;

	for (;;)
	{
		int64		waited = leaf_monotonic_us() - begin;
		int			index;
		bool		starting = false;

		LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_WORKERS), LW_EXCLUSIVE);
		index = find_worker(dboid, false);
		if (index >= 0)
		{
			Worker	   *worker = &workers[index];

			worker->dismissed = true;
			starting = worker->state == WORKER_STARTING;
			if (worker->state == WORKER_RUNNING)
			{
				pid = worker->pid;
				SetLatch(worker->latch);
				if (waited > DISMISS_PATIENCE_US && !terminated)
				{
					/* It waits for something, say for a standby. */
					kill(pid, SIGTERM);
					terminated = true;
				}
			}
		}
		LWLockRelease(leaf_shmem_lock(LEAF_LOCK_WORKERS));

		if (!starting && (pid == 0 || BackendPidGetProc(pid) == NULL))
			return;
		if (waited > DISMISS_TIMEOUT_US)
			return;				/* the command will say what it thinks of it */
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 2,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}
