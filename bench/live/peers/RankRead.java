import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.client.HdfsDataInputStream;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/**
 * One process of a parallel program that reads HDFS by Hadoop's own client, which picks the replica: `RankRead [-D…] WARM`.
 *
 * Rows come on standard input, as `evenkeel cat` takes them: `task,path,start,bytes,from`, where `from` is ignored. They are
 * read one after the other and thrown away, and a line in the words of `evenkeel cat --json` tells what was read, and from
 * which DataNode. The file WARM is read before all, so that classes are loaded.
 */
class RankRead extends Configured implements Tool {
    private final byte[] buffer = new byte[1 << 16];

    private RankRead() {
        super(new HdfsConfiguration());
    }

    public static void main(String[] args) throws Exception {
        System.exit(ToolRunner.run(new RankRead(), args));
    }

    @Override
    public int run(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("usage: RankRead [-D…] WARM");
            return 2;
        }
        FileSystem files = FileSystem.get(getConf());
        Path warm = new Path(args[0]);
        read(files, warm, 0, files.getFileStatus(warm).getLen());
        System.out.println("{\"event\":\"begun\"}");
        BufferedReader rows = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        rows.readLine();
        for (String row = rows.readLine(); row != null; row = rows.readLine()) {
            String[] fields = row.split(",");
            long start = Long.parseLong(fields[2]), bytes = Long.parseLong(fields[3]);
            long begun = System.nanoTime();
            String from = read(files, new Path(fields[1]), start, bytes);
            double seconds = (System.nanoTime() - begun) / 1e9;
            System.out.println("{\"event\":\"read\",\"task\":\"" + fields[0] + "\",\"bytes\":" + bytes
                    + ",\"servers\":[{\"server\":\"" + from + "\",\"bytes\":" + bytes + "}],\"seconds\":" + seconds + "}");
        }
        return 0;
    }

    /** Reads a part of one block. Returns the DataNode that sent it. */
    private String read(FileSystem files, Path path, long start, long bytes) throws IOException {
        try (FSDataInputStream in = files.open(path)) {
            in.seek(start);
            for (long left = bytes; left > 0;) {
                int n = in.read(buffer, 0, (int) Math.min(left, buffer.length));
                if (n < 0) {
                    throw new IOException(path + " ends early");
                }
                left -= n;
            }
            return ((HdfsDataInputStream) in).getCurrentDatanode().getHostName();
        }
    }
}
