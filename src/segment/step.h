/*
 * step.h
 *		How long the next segment of a tag should be.
 */
#ifndef LEAF_STEP_H
#define LEAF_STEP_H

#include "postgres.h"

extern int32 leaf_step_next(int32 base_step, int32 max_step, int duration_s,
							uint64 used, int64 elapsed_us);

#endif							/* LEAF_STEP_H */
