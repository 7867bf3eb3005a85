/*
 * node_data.c
 *		Names and contents of the ZooKeeper nodes that leaf shares with Leaf.
 *
 * The reader is a small recursive scanner over a NUL-terminated text.  Each
 * scan_ function takes the place where its thing begins and returns the
 * place after it, or NULL if the thing is not there.
 */
#include "postgres.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "zookeeper/node_data.h"

/* Deeper nesting than this is not a node's contents. */
#define MAX_DEPTH 32

static const char *scan_value(const char *at, char *text, size_t size, int depth);

static const char *
skip_space(const char *at)
{
	while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')
		at++;
	return at;
}

/*
 * Scan a string and copy it to text, cut off at size.  Escapes of non-ASCII
 * characters become '?': no field that matters has any.
 */
static const char *
scan_string(const char *at, char *text, size_t size)
{
	size_t		len = 0;

	if (*at++ != '"')
		return NULL;
	while (*at != '"')
	{
		char		c = *at++;

		if (c == '\0')
			return NULL;
		if (c == '\\')
		{
			c = *at++;
			switch (c)
			{
				case '\0':
					return NULL;
				case 'n':
					c = '\n';
					break;
				case 't':
					c = '\t';
					break;
				case 'r':
					c = '\r';
					break;
				case 'b':
					c = '\b';
					break;
				case 'f':
					c = '\f';
					break;
				case 'u':
					{
						int			code = 0;

						for (int i = 0; i < 4; i++, at++)
						{
							if (!isxdigit((unsigned char) *at))
								return NULL;
							code = code * 16 + (isdigit((unsigned char) *at) ? *at - '0' : (*at | 0x20) - 'a' + 10);
						}
						c = code > 0 && code < 128 ? (char) code : '?';
						break;
					}
				default:
					break;
			}
		}
		if (len + 1 < size)
			text[len++] = c;
	}
	text[len] = '\0';
	return at + 1;
}

/*
 * Scan the rest of an object or array after its opening bracket.
 */
static const char *
scan_container(const char *at, char closing, int depth)
{
	char		ignored[8];

	at = skip_space(at);
	if (*at == closing)
		return at + 1;
	for (;;)
	{
		if (closing == '}')
		{
			at = scan_string(skip_space(at), ignored, sizeof(ignored));
			if (at == NULL)
				return NULL;
			at = skip_space(at);
			if (*at++ != ':')
				return NULL;
		}
		at = scan_value(at, ignored, sizeof(ignored), depth + 1);
		if (at == NULL)
			return NULL;
		at = skip_space(at);
		if (*at == closing)
			return at + 1;
		if (*at++ != ',')
			return NULL;
	}
}

/*
 * Scan any value; a string, number or word is copied to text.
 */
static const char *
scan_value(const char *at, char *text, size_t size, int depth)
{
	size_t		len = 0;

	at = skip_space(at);
	text[0] = '\0';
	if (depth > MAX_DEPTH)
		return NULL;
	if (*at == '"')
		return scan_string(at, text, size);
	if (*at == '{')
		return scan_container(at + 1, '}', depth);
	if (*at == '[')
		return scan_container(at + 1, ']', depth);

	if (!isalnum((unsigned char) *at) && *at != '-')
		return NULL;
	while (isalnum((unsigned char) *at) || (*at != '\0' && strchr("+-.", *at)))
	{
		if (len + 1 < size)
			text[len++] = *at;
		at++;
	}
	text[len] = '\0';
	return at;
}

bool
leaf_node_data_read(const char *text, LeafNodeData *data)
{
	const char *at = skip_space(text);

	memset(data, 0, sizeof(*data));
	if (*at++ != '{')
		return false;
	at = skip_space(at);
	if (*at == '}')
		return *skip_space(at + 1) == '\0';
	for (;;)
	{
		char		key[32];
		char		value[64];

		at = scan_string(skip_space(at), key, sizeof(key));
		if (at == NULL)
			return false;
		at = skip_space(at);
		if (*at++ != ':')
			return false;
		at = scan_value(at, value, sizeof(value), 0);
		if (at == NULL)
			return false;

		if (strcmp(key, "timestamp") == 0)
		{
			char	   *end;
			long long	number;

			errno = 0;
			number = strtoll(value, &end, 10);
			data->has_timestamp = end != value && *end == '\0' && errno == 0;
			data->timestamp_ms = data->has_timestamp ? number : 0;
		}
		else if (strcmp(key, "instance") == 0)
		{
			size_t		len = strnlen(value, sizeof(data->instance) - 1);

			memcpy(data->instance, value, len);
			data->instance[len] = '\0';
		}

		at = skip_space(at);
		if (*at == '}')
			return *skip_space(at + 1) == '\0';
		if (*at++ != ',')
			return false;
	}
}

/*
 * Append to a text that has size bytes of room; quotes, if asked for, keep a
 * JSON string a string.
 */
static void
append(char *text, size_t size, const char *what, size_t what_len, bool quote)
{
	size_t		len = strlen(text);

	for (size_t i = 0; i < what_len; i++)
	{
		char		c = what[i];

		if (quote && (unsigned char) c < ' ')
			c = ' ';
		if (quote && (c == '"' || c == '\\') && len + 2 < size)
			text[len++] = '\\';
		if (len + 1 < size)
			text[len++] = c;
	}
	text[len] = '\0';
}

#define APPEND(what) append(text, size, what, strlen(what), false)

void
leaf_node_data_write(char *text, size_t size, const char *address,
					 int64 timestamp_ms, const char *instance)
{
	const char *colon = strrchr(address, ':');
	const char *port = colon ? colon + 1 : "";
	size_t		host_len = colon ? colon - address : strlen(address);
	char		number[32];

	text[0] = '\0';
	snprintf(number, sizeof(number), INT64_FORMAT, timestamp_ms);
	APPEND("{\"ip\":\"");
	append(text, size, address, host_len, true);
	APPEND("\",\"port\":\"");
	append(text, size, port, strlen(port), true);
	APPEND("\",\"timestamp\":");
	APPEND(number);
	if (instance != NULL)
	{
		APPEND(",\"instance\":\"");
		append(text, size, instance, strlen(instance), true);
		APPEND("\"");
	}
	APPEND("}");
}

bool
leaf_node_name_parse(const char *name, int *address_len, int *sequence)
{
	const char *dash = strrchr(name, '-');
	char	   *end;
	long		number;

	if (dash == NULL || dash == name || !isdigit((unsigned char) dash[1]))
		return false;
	errno = 0;
	number = strtol(dash + 1, &end, 10);
	if (*end != '\0')
		return false;
	*address_len = dash - name;
	*sequence = (errno != 0 || number > INT_MAX) ? INT_MAX : (int) number;
	return true;
}
