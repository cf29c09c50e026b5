import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;

/**
 * Writes files of a local folder to HDFS, each block to the DataNodes that a table names, and checks that it is there.
 *
 * The table is CSV with the header `path,bytes,hosts` and a row for each block, in order: `/a/file,4194304,s1|s2`. Where
 * no hosts are named, the NameNode chooses.
 */
class Write {
    private static final int PORT = 9866;
    /** Files at a time. Most of the time of a small block is spent waiting for a NameNode's or DataNode's answer. */
    private static final int THREADS = 16;
    private static final long PATIENCE_NS = 10_000_000_000L;

    record Block(long bytes, List<String> hosts) {}

    private final DistributedFileSystem files;
    private final java.nio.file.Path folder;

    Write(DistributedFileSystem files, java.nio.file.Path folder) {
        this.files = files;
        this.folder = folder;
    }

    public static void main(String[] args) {
        try {
            Map<String, List<Block>> layout = read(args[0]);
            HdfsConfiguration conf = new HdfsConfiguration();
            Write write = new Write((DistributedFileSystem) FileSystem.get(conf), Paths.get(args[1]));
            ExecutorService threads = Executors.newFixedThreadPool(THREADS);
            List<Future<Void>> written = new ArrayList<>();
            layout.forEach((path, blocks) -> written.add(threads.submit(() -> {
                write.write(path, blocks);
                return null;
            })));
            for (Future<Void> one : written) {
                one.get();
            }
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            String message = String.valueOf(cause.getMessage()).lines().findFirst().orElse("");
            System.err.println(message + " (" + cause.getClass().getName() + ")");
            System.exit(1);
        }
        // Hadoop's own threads need not end.
        System.exit(0);
    }

    private static Map<String, List<Block>> read(String file) throws IOException {
        Map<String, List<Block>> layout = new LinkedHashMap<>();
        List<String> lines = Files.readAllLines(Paths.get(file));
        if (lines.isEmpty() || !lines.get(0).equals("path,bytes,hosts")) {
            throw new IOException(file + ": line 1 must be path,bytes,hosts");
        }
        for (int at = 1; at < lines.size(); at++) {
            String line = lines.get(at);
            // From the end, since names may contain commas.
            int hosts = line.lastIndexOf(','), bytes = line.lastIndexOf(',', hosts - 1);
            if (bytes < 0 || !line.startsWith("/") || !line.substring(bytes + 1, hosts).matches("[1-9][0-9]{0,17}")) {
                throw new IOException(file + ": line " + (at + 1) + " must be like /file,4194304,s1|s2");
            }
            String listed = line.substring(hosts + 1);
            List<String> names = listed.isEmpty() ? List.of() : List.of(listed.split("\\|"));
            Block block = new Block(Long.parseLong(line.substring(bytes + 1, hosts)), names);
            List<Block> blocks = layout.computeIfAbsent(line.substring(0, bytes), path -> new ArrayList<>());
            blocks.add(block);
            if (names.size() != blocks.get(0).hosts.size()) {
                throw new IOException(file + ": line " + (at + 1) + " must name as many hosts as the file's first block");
            }
        }
        return layout;
    }

    private void write(String name, List<Block> blocks) throws IOException, InterruptedException {
        Path path = new Path(null, null, name);
        java.nio.file.Path local = folder.resolve(name.substring(1));
        long size = blocks.stream().mapToLong(Block::bytes).sum();
        if (Files.size(local) != size) {
            throw new IOException(local + " has " + Files.size(local) + " bytes, and its blocks " + size);
        }
        // A multiple of what one checksum covers.
        long blockSize = (blocks.stream().mapToLong(Block::bytes).max().getAsLong() + 511) / 512 * 512;
        try (InputStream in = Files.newInputStream(local)) {
            int from = 0;
            while (from < blocks.size()) {
                int to = from + 1;
                // As long as blocks are full and their hosts the same, one stream writes them.
                while (to < blocks.size()
                        && blocks.get(to - 1).bytes == blockSize
                        && blocks.get(to).hosts.equals(blocks.get(from).hosts)) {
                    to++;
                }
                long bytes = blocks.subList(from, to).stream().mapToLong(Block::bytes).sum();
                try (FSDataOutputStream out = open(path, from == 0, blockSize, blocks.get(from).hosts)) {
                    copy(in, out, bytes);
                }
                from = to;
            }
        }
        check(path, blocks);
    }

    private FSDataOutputStream open(Path path, boolean isNew, long blockSize, List<String> hosts) throws IOException {
        InetSocketAddress[] nodes = hosts.isEmpty() ? null : new InetSocketAddress[hosts.size()];
        for (int at = 0; at < hosts.size(); at++) {
            nodes[at] = new InetSocketAddress(hosts.get(at), PORT);
        }
        if (isNew) {
            short replicas = nodes == null ? files.getDefaultReplication(path) : (short) nodes.length;
            return files.create(path, FsPermission.getFileDefault(), true, 1 << 16, replicas, blockSize, null, nodes);
        }
        return files.append(path, EnumSet.of(CreateFlag.APPEND, CreateFlag.NEW_BLOCK), 1 << 16, null, nodes);
    }

    private static void copy(InputStream in, FSDataOutputStream out, long bytes) throws IOException {
        byte[] buffer = new byte[1 << 16];
        while (bytes > 0) {
            int read = in.read(buffer, 0, (int) Math.min(bytes, buffer.length));
            if (read < 0) {
                throw new IOException("a file became shorter while it was read");
            }
            out.write(buffer, 0, read);
            bytes -= read;
        }
    }

    /** The NameNode takes the hosts for a wish: a DataNode without room, for instance, gets nothing. */
    private void check(Path path, List<Block> blocks) throws IOException, InterruptedException {
        long deadline = System.nanoTime() + PATIENCE_NS;
        while (true) {
            String fault = fault(path, blocks);
            if (fault == null) {
                return;
            }
            // A DataNode may report its replica after the file is closed.
            if (System.nanoTime() > deadline) {
                throw new IOException(fault);
            }
            Thread.sleep(100);
        }
    }

    /** What is not as the table says. */
    private String fault(Path path, List<Block> blocks) throws IOException {
        BlockLocation[] found = files.getFileBlockLocations(path, 0, Long.MAX_VALUE);
        for (int at = 0; at < Math.max(found.length, blocks.size()); at++) {
            if (found.length != blocks.size() || found[at].getLength() != blocks.get(at).bytes) {
                return path + " has other blocks than the table says: " + Arrays.toString(found);
            }
            TreeSet<String> wanted = new TreeSet<>(blocks.get(at).hosts);
            TreeSet<String> hosts = new TreeSet<>(List.of(found[at].getHosts()));
            if (!wanted.isEmpty() && !wanted.equals(hosts)) {
                return "block " + at + " of " + path + " is on " + hosts + ", not on " + wanted;
            }
        }
        return null;
    }
}
