import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/**
 * Reads all files below a path of HDFS by Hadoop's own client, in positional reads of so many KiB:
 * `HedgedRead [-D…] PATH TO THREADS KIB`.
 *
 * Hedged reads are the client's own: it asks another DataNode too if `dfs.client.hedged.read.threadpool.size` is not 0
 * and a read takes longer than `dfs.client.hedged.read.threshold.millis`.
 */
class HedgedRead extends Configured implements Tool {
    private HedgedRead() {
        super(new HdfsConfiguration());
    }

    public static void main(String[] args) throws Exception {
        System.exit(ToolRunner.run(new HedgedRead(), args));
    }

    @Override
    public int run(String[] args) throws Exception {
        if (args.length != 4) {
            System.err.println("usage: HedgedRead [-D…] PATH TO THREADS KIB");
            return 2;
        }
        FileSystem files = FileSystem.get(getConf());
        Path path = files.makeQualified(new Path(args[0]));
        int pieceBytes = Integer.parseInt(args[3]) << 10;
        ExecutorService threads = Executors.newFixedThreadPool(Integer.parseInt(args[2]));
        List<Future<Void>> pieces = new ArrayList<>();
        RemoteIterator<LocatedFileStatus> found = files.listFiles(path, true);
        while (found.hasNext()) {
            LocatedFileStatus file = found.next();
            String name = file.getPath().toUri().getPath().substring(path.toUri().getPath().length());
            java.nio.file.Path local = Paths.get(args[1], name);
            Files.createDirectories(local.getParent());
            FileChannel out = FileChannel.open(local, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            Opened in = new Opened(files, file.getPath());
            for (long at = 0; at < file.getLen(); at += pieceBytes) {
                long offset = at;
                int bytes = (int) Math.min(pieceBytes, file.getLen() - at);
                pieces.add(threads.submit(() -> {
                    byte[] buffer = new byte[bytes];
                    in.stream().readFully(offset, buffer);
                    ByteBuffer rest = ByteBuffer.wrap(buffer);
                    while (rest.hasRemaining()) {
                        out.write(rest, offset + rest.position());
                    }
                    return null;
                }));
            }
        }
        for (Future<Void> piece : pieces) {
            piece.get();
        }
        threads.shutdown();
        return 0;
    }

    /** A file that the first of the threads opens. Positional reads of one stream do not wait for each other. */
    private static class Opened {
        private final FileSystem files;
        private final Path path;
        private FSDataInputStream stream;

        Opened(FileSystem files, Path path) {
            this.files = files;
            this.path = path;
        }

        synchronized FSDataInputStream stream() throws IOException {
            if (stream == null) {
                stream = files.open(path);
            }
            return stream;
        }
    }
}
