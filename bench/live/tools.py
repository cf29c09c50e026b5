"""Command lines of the tools."""


def evenkeel(args, sources, to, *options):
    """Several sources are mirrors of each other."""
    mirrors = sources if len(sources) == 1 else [word for source in sources for word in ("--mirror", source)]
    return [args.evenkeel, "get", "--json", *options, *mirrors, to]


def aria2(meta, to, connections=1):
    """Verifies the checksums of the Metalink, as ours does."""
    return ["aria2c", "--quiet", "--file-allocation=none", f"--max-connection-per-server={connections}",
            f"--split={8 * connections}", "--min-split-size=1M", "--dir", to, "--metalink-file", meta]


def aria2_urls(listed, to):
    """Reads the URLs in a file, which come without checksums."""
    return ["aria2c", "--quiet", "--file-allocation=none", "--max-concurrent-downloads=16", "--dir", to,
            "--input-file", listed]


def curl(urls, to):
    return ["curl", "--silent", "--show-error", "--fail", "--parallel", "--parallel-immediate",
            "--remote-name-all", "--output-dir", to, *urls]


def rclone(*arguments):
    """With more streams and transfers than by default, and without a configuration of the user's own."""
    return ["rclone", "copy", "--config", "", "--transfers", "16", "--multi-thread-streams", "4",
            "--multi-thread-cutoff", "1M", *arguments]


def rclone_http(address, key, to):
    return rclone("--http-url", address, f":http:{key}", to)


def rclone_s3(endpoint, folder, to, *options):
    return rclone("--s3-provider", "Other", "--s3-env-auth", "--s3-endpoint", endpoint, *options, f":s3:{folder}", to)


def s5cmd(args, endpoint, *arguments):
    return [args.s5cmd, "--log", "error", "--endpoint-url", endpoint, *arguments]


def upload(args, endpoint, folder, bucket_folder):
    """Each file in one part: the entity tag is then its MD5, by which tools can verify it."""
    return s5cmd(args, endpoint, "cp", "--part-size", "1024", f"{folder}/", f"s3://{bucket_folder}/")


def xrdcp(meta, to, *options):
    return ["xrdcp", "--silent", "--force", "--sources", "8", *options, meta, f"{to}/"]


def hadoop_get(hadoop, path, to, threads):
    """The stock client, with as many files at a time."""
    return [hadoop, "fs", "-get", "-t", str(threads), path, to]


def hedged_read(hadoop, path, to, threads, kib, threshold_ms):
    """The stock client's positional reads. What takes longer than the threshold is asked of another DataNode, too."""
    settings = [f"-Ddfs.client.hedged.read.threadpool.size={2 * threads}",
                f"-Ddfs.client.hedged.read.threshold.millis={threshold_ms}"]
    return [hadoop, "HedgedRead", *settings, path, to, str(threads), str(kib)]


def hdfs_native(args, path, to, requests):
    return [args.hdfs_native, path, to, str(requests)]
