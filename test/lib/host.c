/*
 * host.c
 *		Preloaded into a server by the tests: a host name and a name server of
 *		their own.
 *
 * gethostname answers with what the file $LEAF_TEST_HOSTNAME holds.
 * getaddrinfo answers for the name "peers.test" with the IPv4 addresses in
 * the file $LEAF_TEST_ADDRESSES, separated by spaces, and never if the file
 * says "hang".  Both files are read at every call.  All else is the C
 * library's.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first line of the file that an environment variable names; 0: none */
static int
read_line(const char *variable, char *line, size_t size)
{
	const char *path = getenv(variable);
	FILE	   *file = path ? fopen(path, "r") : NULL;
	int			ok;

	if (file == NULL)
		return 0;
	ok = fgets(line, (int) size, file) != NULL;
	fclose(file);
	if (ok)
		line[strcspn(line, "\n")] = '\0';
	return ok;
}

int
gethostname(char *name, size_t len)
{
	int			(*real) (char *, size_t) = dlsym(RTLD_NEXT, "gethostname");
	char		line[2048];

	if (!read_line("LEAF_TEST_HOSTNAME", line, sizeof(line)))
		return real(name, len);
	strncpy(name, line, len);
	return 0;
}

int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
			struct addrinfo **res)
{
	int			(*real) (const char *, const char *, const struct addrinfo *,
						struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
	struct addrinfo **last = res;
	char		line[2048];
	char	   *rest = line;
	char	   *address;

	if (node == NULL || strcmp(node, "peers.test") != 0 ||
		!read_line("LEAF_TEST_ADDRESSES", line, sizeof(line)))
		return real(node, service, hints, res);

	if (strcmp(line, "hang") == 0)
	{
		for (;;)
			pause();
	}

	*res = NULL;
	while ((address = strsep(&rest, " ")) != NULL)
	{
		int			rc = real(address, service, hints, last);

		if (rc != 0)
			return rc;
		while (*last != NULL)
			last = &(*last)->ai_next;
	}
	return *res != NULL ? 0 : EAI_NONAME;
}
