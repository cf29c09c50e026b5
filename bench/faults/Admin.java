import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.SafeModeAction;
import org.apache.hadoop.ha.HAServiceProtocol;
import org.apache.hadoop.ha.HAServiceProtocol.RequestSource;
import org.apache.hadoop.ha.HAServiceProtocol.StateChangeRequestInfo;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.tools.NNHAServiceTarget;

/**
 * What Hadoop's own commands do to NameNodes, without the start of a process each time.
 *
 * Reads lines `enter n1`, `leave n1` (safe mode, both) and `activate n2`, and answers each with `done` or an error.
 */
class Admin {
    public static void main(String[] args) throws Exception {
        HdfsConfiguration conf = new HdfsConfiguration();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            try {
                boolean isEntered = words[0].equals("enter");
                if (isEntered || words[0].equals("leave")) {
                    // That NameNode and not the pair: one that stands by would take the order for itself. By force, since a
                    // NameNode may refuse to leave where it has seen blocks that are newer than its journal.
                    SafeModeAction action = isEntered ? SafeModeAction.ENTER : SafeModeAction.FORCE_EXIT;
                    try (FileSystem files = FileSystem.newInstance(URI.create("hdfs://" + words[1] + ":8020"), conf)) {
                        if (((DistributedFileSystem) files).setSafeMode(action) != isEntered) {
                            throw new IOException("the NameNode did not do it");
                        }
                    }
                } else {
                    String pair = conf.get("dfs.nameservices");
                    HAServiceProtocol node = new NNHAServiceTarget(conf, pair, words[1]).getProxy(conf, 10_000);
                    node.transitionToActive(new StateChangeRequestInfo(RequestSource.REQUEST_BY_USER_FORCED));
                }
                System.out.println("done");
            } catch (Exception error) {
                System.out.println(String.valueOf(error.getMessage()).lines().findFirst().orElse("no reason"));
            }
        }
        // Hadoop's own threads need not end.
        System.exit(0);
    }
}
