/*
 * launch.h
 *		Requests for a refill, and the start of the workers that serve them.
 */
#ifndef LEAF_LAUNCH_H
#define LEAF_LAUNCH_H

#include "postgres.h"

#include "segment/slot.h"

/* What became of the request for a refill. */
typedef enum LeafLaunch
{
	LEAF_LAUNCH_OK,				/* a worker has it, or is on its way */
	LEAF_LAUNCH_NO_WORKER,		/* there is no free background worker now */
} LeafLaunch;

/* For backends: ask for a segment.  Cheap if it was asked for already. */
extern LeafLaunch leaf_launch_request(LeafSlot *slot, bool urgent);

/* For backends about to run a command that wants the database unused. */
extern void leaf_launch_dismiss(Oid dboid);

/* For the refill worker. */
extern bool leaf_launch_attach(int worker, uint32 token);
extern int	leaf_launch_take_requests(LeafSlot **slots, int max);
extern bool leaf_launch_take_urgency(void);
extern void leaf_launch_requests_done(LeafSlot **slots, int n);
extern void leaf_launch_worker_is_fine(void);
extern bool leaf_launch_dismissed(void);
extern bool leaf_launch_leave_if_idle(void);

/* What a refill worker is started with, in bgw_extra. */
typedef struct LeafLaunchArgs
{
	int			worker;
	uint32		token;
	Oid			dboid;
} LeafLaunchArgs;

#endif							/* LEAF_LAUNCH_H */
