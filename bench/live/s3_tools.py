"""Objects that are elsewhere, in the hands of S3 tools: python3 s3_tools.py EVENKEEL S5CMD.

Starts three nodes, one of them slow, and puts files there with `evenkeel put`: small ones around the slow node, and a large one in pieces.
Then boto3, rclone, s5cmd and s3fs (a mount by FUSE, as root) list, read, copy, rename and delete at each node, and every byte is compared. A tool
that is not installed is named, and fails the run. A node shows the objects whose home it is, wherever their bytes are.
"""
import hashlib, json, os, shutil, subprocess, sys, tempfile, time
import boto3
from botocore.config import Config

evenkeel, s5cmd = map(os.path.abspath, sys.argv[1:3])
work = tempfile.mkdtemp(prefix="s3-tools-")
rows = []


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, env={**inherited, **environment}, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout[-500:]}{done.stderr[-1000:]}")
    return done.stdout


def digests(folder):
    """Of all files below it, by relative path."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def equal(got, expected, what):
    if got != expected:
        names = sorted(name for name in got.keys() | expected.keys() if got.get(name) != expected.get(name))
        raise RuntimeError(f"{what}: {len(names)} of {len(expected)} differ, such as {names[:5]}")


def tree(name, sizes):
    root = os.path.join(work, name)
    for number, size in enumerate(sizes):
        path = os.path.join(root, f"d{number % 3}", f"file {number} ä+&%25")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(os.urandom(size))
    return root


def test(what):
    def check(function):
        start = time.time()
        try:
            says = function() or ""
            rows.append((what, f"ok {says}".strip()))
        except Exception as error:
            rows.append((what, f"FAILED: {type(error).__name__}: {str(error)[:600]}"))
        print(*rows[-1], f"({time.time() - start:.1f} s)", sep=": ", flush=True)
    return check


# Settings of the user's own for S3 would apply here, too.
inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
environment = {}
data = os.path.join(work, "data")
up = subprocess.Popen([evenkeel, "up", "--nodes", "3", "--data", data, "--speed", "s3=0.1", "--json"],
                      stdout=subprocess.PIPE, text=True)
told = json.loads(up.stdout.readline())
endpoints, keys = told["endpoints"], (told["access_key"], told["secret_key"])
environment = {"EVENKEEL_CLUSTER": told["cluster"], "AWS_ACCESS_KEY_ID": keys[0], "AWS_SECRET_ACCESS_KEY": keys[1],
               "AWS_REGION": "us-east-1", "RCLONE_CONFIG": "", "RCLONE_S3_PROVIDER": "Other", "RCLONE_S3_ENV_AUTH": "true"}
clients = [boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=keys[0],
                        aws_secret_access_key=keys[1], config=Config(retries={"max_attempts": 1})) for endpoint in endpoints]
put = tree("put", [0, 1, 100_000, *[700_000] * 24, 40 << 20])
own = tree("own", [0, 1, 5000, 300_000, 20 << 20])
prefix = "set/"


def shown(client, prefix):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="data", Prefix=prefix)
    return {one["Key"]: one["Size"] for page in pages for one in page.get("Contents", [])}


def show(client):
    """The same client, which sees redirects as they are."""
    other = boto3.client("s3", endpoint_url=client.meta.endpoint_url, region_name="us-east-1", aws_access_key_id=keys[0],
                         aws_secret_access_key=keys[1])
    other.meta.events.register("before-sign.s3", lambda request, **_: request.headers.add_header("x-evenkeel-redirect", "show"))
    return other


@test("evenkeel put; every object has its home, and some are elsewhere")
def _():
    for client in clients:
        client.create_bucket(Bucket="data")
    run(evenkeel, "put", "--placement", "mlml", put, f"keel://data/{prefix}")
    names = {}
    for client in clients:
        names |= shown(client, prefix)
    sizes = {prefix + name: os.path.getsize(os.path.join(put, name)) for name in digests(put)}
    # What is put is the folder or what is in it.
    global below
    below = os.path.commonprefix(list(names)) if names.keys() != sizes.keys() else prefix
    below = below[:below.rindex("/") + 1]
    equal({name.removeprefix(below): size for name, size in names.items()},
          {name.removeprefix(prefix): size for name, size in sizes.items()}, "listings of all nodes")
    redirected = sum("evenkeel-redirect" in json.dumps(
        show(client).head_object(Bucket="data", Key=key)["Metadata"]) for client in clients for key in shown(client, below))
    assert redirected >= 3, f"only {redirected} are elsewhere"
    return f"{redirected} of {len(names)} are elsewhere"


def everywhere(read):
    """What is read at all nodes, which together have everything."""
    folder = tempfile.mkdtemp(dir=work)
    for number in range(3):
        read(number, folder)
    equal(digests(folder), digests(put), "what was read")
    shutil.rmtree(folder)


@test("boto3: reads, ranges, copies, renames, deletions")
def _():
    def read(number, folder):
        for key in shown(clients[number], below):
            path = os.path.join(folder, key.removeprefix(below))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            clients[number].download_file("data", key, path)
    everywhere(read)
    for number, client in enumerate(clients):
        for key, size in list(shown(client, below).items())[:4]:
            with open(os.path.join(put, key.removeprefix(below)), "rb") as file:
                whole = file.read()
            if size > 10:
                part = client.get_object(Bucket="data", Key=key, Range=f"bytes=5-{size - 3}")["Body"].read()
                assert part == whole[5:size - 2], key
            client.copy_object(Bucket="data", Key="copied/" + key, CopySource={"Bucket": "data", "Key": key})
            assert client.get_object(Bucket="data", Key="copied/" + key)["Body"].read() == whole, key
            client.delete_object(Bucket="data", Key="copied/" + key)
        assert not shown(client, "copied/")


@test("rclone: copies both ways, checks, moves, purges")
def _():
    remote = lambda number, path: f":s3,endpoint=\"{endpoints[number]}\":data/{path}"
    everywhere(lambda number, folder: run("rclone", "copy", remote(number, below), folder))
    for number in range(3):
        run("rclone", "copy", own, remote(number, "rclone"))
        run("rclone", "check", "--download", own, remote(number, "rclone"))
        run("rclone", "moveto", remote(number, "rclone"), remote(number, "moved"))
        assert "rclone" not in run("rclone", "lsf", remote(number, "")), "it was moved"
        back = tempfile.mkdtemp(dir=work)
        run("rclone", "copy", remote(number, "moved"), back)
        equal(digests(back), digests(own), "what was moved")
        run("rclone", "purge", remote(number, "moved"))
        assert not shown(clients[number], "moved/")


@test("s5cmd: copies both ways, moves, removes")
def _():
    def at(number, *arguments):
        return run(s5cmd, "--log", "error", "--endpoint-url", endpoints[number], *arguments)
    everywhere(lambda number, folder: at(number, "cp", f"s3://data/{below}*", folder + "/"))
    for number in range(3):
        at(number, "cp", own + "/", "s3://data/s5/")
        at(number, "mv", "s3://data/s5/*", "s3://data/s5moved/")
        assert not shown(clients[number], "s5/")
        back = tempfile.mkdtemp(dir=work)
        at(number, "cp", "s3://data/s5moved/*", back + "/")
        equal(digests(back), digests(own), "what was moved")
        at(number, "rm", "s3://data/s5moved/*")
        assert not shown(clients[number], "s5moved/")


@test("s3fs: a tree copied in, listed, read, renamed, deleted; what is elsewhere read")
def _():
    password = os.path.join(work, "password")
    with open(password, "w") as out:
        out.write(":".join(keys))
    os.chmod(password, 0o600)
    for number in range(3):
        mount = tempfile.mkdtemp(dir=work)

        def mounted():
            run("s3fs", "data", mount, "-o", f"url={endpoints[number]}", "-o", "use_path_request_style", "-o",
                f"passwd_file={password}", "-o", "endpoint=us-east-1", "-o", "multipart_size=10")

        def unmounted():
            subprocess.run(["fusermount", "-u", mount], check=True)
            deadline = time.time() + 20
            while os.path.ismount(mount) and time.time() < deadline:
                time.sleep(0.1)

        mounted()
        try:
            mine = {key.removeprefix(below) for key in shown(clients[number], below)}
            expected = {name: digest for name, digest in digests(put).items() if name in mine}
            equal(digests(os.path.join(mount, below)), expected, "what is elsewhere")
            shutil.copytree(own, os.path.join(mount, "fuse"))
            unmounted()
            mounted()  # nothing of it is cached any more
            equal(digests(os.path.join(mount, "fuse")), digests(own), "what was copied in")
            os.rename(os.path.join(mount, "fuse"), os.path.join(mount, "renamed"))
            equal(digests(os.path.join(mount, "renamed")), digests(own), "what was renamed")
            # An object that is elsewhere, under another name.
            name = sorted(mine)[0]
            os.rename(os.path.join(mount, below, name), os.path.join(mount, "taken"))
            with open(os.path.join(mount, "taken"), "rb") as file:
                assert hashlib.file_digest(file, "sha256").hexdigest() == digests(put)[name]
            os.rename(os.path.join(mount, "taken"), os.path.join(mount, below, name))
            with open(os.path.join(mount, "renamed", "appended"), "ab") as file:
                file.write(b"one")
            with open(os.path.join(mount, "renamed", "appended"), "ab") as file:
                file.write(b"two")
            with open(os.path.join(mount, "renamed", "appended"), "rb") as file:
                assert file.read() == b"onetwo"
            shutil.rmtree(os.path.join(mount, "renamed"))
            assert "renamed" not in os.listdir(mount)
        finally:
            unmounted()
        assert not shown(clients[number], "renamed/")


@test("evenkeel get; all as it was")
def _():
    everywhere(lambda number, folder: number or run(evenkeel, "get", f"keel://data/{below}", folder))


@test("evenkeel maintain brings home; evenkeel rm leaves nothing")
def _():
    run(evenkeel, "maintain", "keel://data/")
    everywhere(lambda number, folder: number or run(evenkeel, "get", f"keel://data/{below}", folder))
    run(evenkeel, "rm", "--recursive", "keel://data/")
    for client in clients:
        left = shown(client, "") | shown(client, ".evenkeel/")
        assert not left, f"left are {list(left)[:5]}"


up.terminate()
up.wait(60)
shutil.rmtree(work)
sys.exit(any(how.startswith("FAILED") for _, how in rows))
