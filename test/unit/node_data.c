/*
 * node_data.c
 *		Names and contents of ZooKeeper nodes: what is read, what is written.
 */
#include "unit.h"

#include "zookeeper/node_data.h"

static void
reads(const char *text, bool good, bool has_timestamp, int64 timestamp_ms,
	  const char *instance)
{
	LeafNodeData data;
	bool		result = leaf_node_data_read(text, &data);

	ok(result == good && data.has_timestamp == has_timestamp &&
		   data.timestamp_ms == timestamp_ms && strcmp(data.instance, instance) == 0,
	   text);
}

static void
writes(const char *address, int64 timestamp_ms, const char *instance,
	   const char *wanted)
{
	char		text[LEAF_NODE_DATA_LEN];

	leaf_node_data_write(text, sizeof(text), address, timestamp_ms, instance);
	ok(strcmp(text, wanted) == 0, wanted);
}

static void
parses(const char *name, bool good, int wanted_len, int wanted_sequence)
{
	int			len = 0;
	int			sequence = 0;
	bool		result = leaf_node_name_parse(name, &len, &sequence);

	ok(result == good && (!good || (len == wanted_len && sequence == wanted_sequence)),
	   name);
}

int
main(void)
{
	char		deep[2000];
	char		small[16];

	/* what Leaf writes, and what is the same to a JSON reader */
	reads("{\"ip\":\"10.0.0.1\",\"port\":\"8080\",\"timestamp\":1700000000123}",
		  true, true, 1700000000123, "");
	reads("{\"timestamp\":1700000000123,\"port\":\"8080\",\"ip\":\"10.0.0.1\"}",
		  true, true, 1700000000123, "");
	reads(" { \"ip\" : \"a\" ,\n\t\"timestamp\" : 5 , \"port\" : 8080 } \r\n",
		  true, true, 5, "");
	reads("{\"timestamp\":\"77\"}", true, true, 77, "");
	reads("{\"timestamp\":-3}", true, true, -3, "");
	reads("{\"instance\":\"0123abcd\",\"timestamp\":9}", true, true, 9, "0123abcd");
	reads("{\"x\":{\"timestamp\":1,\"y\":[1,{\"z\":null}]},\"timestamp\":2,\"w\":[]}",
		  true, true, 2, "");
	reads("{\"x\":\"\\\"}\\\\\",\"timestamp\":4}", true, true, 4, "");
	reads("{\"time\\u0073tamp\":6}", true, true, 6, "");
	reads("{\"t\":true,\"f\":false,\"n\":null,\"e\":1.5e3,\"timestamp\":8}",
		  true, true, 8, "");
	reads("{}", true, false, 0, "");
	reads("{ }", true, false, 0, "");

	/* a timestamp that is none */
	reads("{\"timestamp\":null}", true, false, 0, "");
	reads("{\"timestamp\":\"soon\"}", true, false, 0, "");
	reads("{\"timestamp\":99999999999999999999}", true, false, 0, "");
	reads("{\"timestamp\":{}}", true, false, 0, "");

	/* damage */
	reads("", false, false, 0, "");
	reads("null", false, false, 0, "");
	reads("[1]", false, false, 0, "");
	reads("{", false, false, 0, "");
	reads("{\"timestamp\"", false, false, 0, "");
	reads("{\"timestamp\":", false, false, 0, "");
	reads("{\"timestamp\":3", false, true, 3, "");
	reads("{\"timestamp\":3,", false, true, 3, "");
	reads("{\"timestamp\":3}x", false, true, 3, "");
	reads("{\"timestamp", false, false, 0, "");
	reads("{\"a\\", false, false, 0, "");
	reads("{\"a\\u00", false, false, 0, "");
	reads("{timestamp:3}", false, false, 0, "");

	memset(deep, '[', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	memcpy(deep, "{\"a\":", 5);
	{
		LeafNodeData data;

		ok(!leaf_node_data_read(deep, &data), "nesting without end");
	}

	writes("10.0.0.1:5432", 1700000000123, NULL,
		   "{\"ip\":\"10.0.0.1\",\"port\":\"5432\",\"timestamp\":1700000000123}");
	writes("10.0.0.1:5432", 0, "00ff",
		   "{\"ip\":\"10.0.0.1\",\"port\":\"5432\",\"timestamp\":0,\"instance\":\"00ff\"}");
	writes("[::1]:5432", 1, NULL,
		   "{\"ip\":\"[::1]\",\"port\":\"5432\",\"timestamp\":1}");
	writes("a\"b\\c:1", 1, NULL,
		   "{\"ip\":\"a\\\"b\\\\c\",\"port\":\"1\",\"timestamp\":1}");
	writes("nameonly", 1, NULL,
		   "{\"ip\":\"nameonly\",\"port\":\"\",\"timestamp\":1}");
	leaf_node_data_write(small, sizeof(small), "10.0.0.1:5432", 1, NULL);
	ok(strlen(small) == sizeof(small) - 1, "cut off where there is no room");

	parses("10.0.0.1:5432-0000000000", true, 13, 0);
	parses("10.0.0.1:5432-0000001023", true, 13, 1023);
	parses("pod-0.svc:5432-0000000007", true, 14, 7);
	parses("10.0.0.1:5432-9999999999", true, 13, PG_INT32_MAX);
	parses("10.0.0.1:5432--2147483648", true, 14, PG_INT32_MAX);
	parses("10.0.0.1:5432-", false, 0, 0);
	parses("10.0.0.1:5432", false, 0, 0);
	parses("-0000000001", false, 0, 0);
	parses("10.0.0.1:5432-00x", false, 0, 0);
	parses("", false, 0, 0);

	return done();
}
