import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryUntilElapsed;
import org.apache.zookeeper.CreateMode;

/**
 * Does on the wire what a node of Leaf does: the same library calls on the same
 * paths, and JSON by the same mapper with its default strictness.
 *
 * Arguments: connect string, cluster, ip, port. Prints "new ID" or "old ID",
 * then one line for each node that it sees, and reports until it is killed.
 */
public class LeafNode {
    /** The report. An unknown field makes the mapper throw, as it does in Leaf. */
    public static class Endpoint {
        private String ip;
        private String port;
        private long timestamp;

        public Endpoint() {
        }

        Endpoint(String ip, String port, long timestamp) {
            this.ip = ip;
            this.port = port;
            this.timestamp = timestamp;
        }

        public String getIp() {
            return ip;
        }

        public void setIp(String ip) {
            this.ip = ip;
        }

        public String getPort() {
            return port;
        }

        public void setPort(String port) {
            this.port = port;
        }

        public long getTimestamp() {
            return timestamp;
        }

        public void setTimestamp(long timestamp) {
            this.timestamp = timestamp;
        }
    }

    public static void main(String[] args) throws Exception {
        String forever = "/snowflake/" + args[1] + "/forever";
        String ip = args[2];
        String port = args[3];
        ObjectMapper mapper = new ObjectMapper();
        CuratorFramework curator = CuratorFrameworkFactory.builder()
            .connectString(args[0])
            .retryPolicy(new RetryUntilElapsed(1000, 4))
            .connectionTimeoutMs(10000)
            .sessionTimeoutMs(6000)
            .build();
        curator.start();
        curator.blockUntilConnected();

        String node = null;
        int workerId = -1;
        if (curator.checkExists().forPath(forever) != null) {
            for (String name : curator.getChildren().forPath(forever)) {
                String[] parts = name.split("-");
                int id = Integer.parseInt(parts[1]);

                if (parts[0].equals(ip + ":" + port)) {
                    node = forever + "/" + name;
                    workerId = id;
                }
            }
        }
        if (node != null) {
            Endpoint last = mapper.readValue(curator.getData().forPath(node), Endpoint.class);
            if (last.getTimestamp() > System.currentTimeMillis()) {
                throw new IllegalStateException("clock is behind the last report");
            }
            System.out.println("old " + workerId);
        } else {
            node = curator.create().creatingParentsIfNeeded()
                .withMode(CreateMode.PERSISTENT_SEQUENTIAL)
                .forPath(forever + "/" + ip + ":" + port + "-", report(mapper, ip, port));
            workerId = Integer.parseInt(node.split("-")[1]);
            System.out.println("new " + workerId);
        }

        for (String name : curator.getChildren().forPath(forever)) {
            Endpoint seen =
                mapper.readValue(curator.getData().forPath(forever + "/" + name), Endpoint.class);
            System.out.println(
                name + " " + seen.getIp() + " " + seen.getPort() + " " + seen.getTimestamp());
        }
        System.out.println("running");

        String path = node;
        Executors.newSingleThreadScheduledExecutor().scheduleWithFixedDelay(() -> {
            try {
                curator.setData().forPath(path, report(mapper, ip, port));
            } catch (Exception e) {
                System.out.println("failed " + e);
            }
        }, 100, 300, TimeUnit.MILLISECONDS);
    }

    private static byte[] report(ObjectMapper mapper, String ip, String port) throws Exception {
        return mapper.writeValueAsString(new Endpoint(ip, port, System.currentTimeMillis()))
            .getBytes();
    }
}
