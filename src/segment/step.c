/*
 * step.c
 *		How long the next segment of a tag should be: a pure function.
 *
 * Leaf doubles the step when a segment lasted less than 15 minutes and halves
 * it when one lasted more than 30, so that a sudden load of a thousand times
 * the usual takes ten refills to settle.  Here the step follows the measured
 * rate: what was used since the last refill, over the time since then.
 */
#include "postgres.h"

#include <math.h>

#include "datatype/timestamp.h"

#include "segment/step.h"

/*
 * A rate is taken over at least this part of the segment duration, so that a
 * short burst is not mistaken for a load: the step grows at most this many
 * times over what was used since the last refill.
 */
#define MAX_GROWTH 256

/*
 * base_step, max_step: the row's step and leaf.max_step; the answer lies
 * between them, and is base_step where that is the larger one.
 * duration_s: leaf.segment_duration in seconds; 0: always base_step.
 * used, elapsed_us: ids given out since the last refill, and the time since
 * then in microseconds of a monotonic clock.
 */
int32
leaf_step_next(int32 base_step, int32 max_step, int duration_s,
			   uint64 used, int64 elapsed_us)
{
	double		duration_us = (double) duration_s * USECS_PER_SEC;
	double		window_us = Max((double) elapsed_us, duration_us / MAX_GROWTH);
	double		step;

	if (duration_s == 0 || base_step >= max_step)
		return base_step;
	step = ceil((double) used * duration_us / window_us);
	if (step <= base_step)
		return base_step;
	return step >= max_step ? max_step : (int32) step;
}
