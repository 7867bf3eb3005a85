/*
 * hostname.c
 *		Prints what leaf_hostname_parse makes of each argument.
 */
#include "postgres.h"

#include "snowflake/hostname.h"

/* The C library's: this is not linked with the server. */
#undef printf

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
	{
		int			worker_id = -1;

		switch (leaf_hostname_parse(argv[i], &worker_id))
		{
			case LEAF_REFUSAL_NONE:
				printf("%d\n", worker_id);
				break;
			case LEAF_REFUSAL_BAD_HOSTNAME:
				puts("bad_hostname");
				break;
			case LEAF_REFUSAL_WORKER_ID_OUT_OF_RANGE:
				puts("worker_id_out_of_range");
				break;
			default:
				puts("?");
				break;
		}
	}
	return 0;
}
