import java.io.BufferedReader;
import java.io.InputStreamReader;
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
 * Reads lines `safemode ENTER`, `safemode LEAVE` and `activate n2`, and answers each with `done` or an error.
 */
class Admin {
    public static void main(String[] args) throws Exception {
        HdfsConfiguration conf = new HdfsConfiguration();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            try {
                if (words[0].equals("safemode")) {
                    // A client of its own, since which NameNode is active may have changed.
                    try (FileSystem files = FileSystem.newInstance(conf)) {
                        ((DistributedFileSystem) files).setSafeMode(SafeModeAction.valueOf(words[1]));
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
