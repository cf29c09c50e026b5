"""The public conformance suite for S3, github.com/ceph/s3-tests, against any endpoint, and what it says, by area.

  python3 s3_suite.py SUITE NAME ENDPOINT ACCESS_KEY SECRET_KEY RESULTS.json [ARGUMENTS OF PYTEST]
  python3 s3_suite.py --table RESULTS.json …
  python3 s3_suite.py --failed RESULTS.json

SUITE is a checkout of the suite. Its requirements, pytest-timeout and awscrt have to be installed. The region is that of AWS_REGION.
The suite is used as it is but for two things. It empties buckets by listing versions, which few servers have; here they are
emptied by what every server has. And it wants several accounts; here all are the same one.
"""

import configparser
import json
import os
import re
import subprocess
import sys
import tempfile
from urllib.parse import urlsplit

# What the names of tests match, by area. The first match counts. Whoever adds a line sees in `--table` which tests it takes.
NOT_COMPARED = [
    ("logs of buckets", r"logging"),
    ("object locks", r"object_lock|retention|legal_hold"),
    ("encryption", r"encrypt|sse_|_sse|_enc_|_enc\b"),
    ("uploads by web forms", r"post_object"),
    ("policies, public access blocks", r"polic|public_block|block_public|ignore_public|get_public"),
    ("lifecycle, tiers, restoring", r"lifecycle|cloud_|restore_|read_through|storage_class"),
    ("tags", r"tagging|tags"),
    ("CORS", r"cors"),
    ("versions", r"version|delete_marker|_current_"),
    ("access control lists, several accounts", r"acl|ownership|bucket_owner|object_writer|access_bucket|not_owned|nonowner|tenant|"
                                               r"raw_get|raw_response|raw_authenticated|delete_key_bucket_gone|return_data|"
                                               r"anon_put_write|anonymous$|special_key_names|100_continue$|objects_anonymous$|"
                                               r"bucket_head_extended|owner$"),
    ("signature version 2, Ceph's own", r"aws2|torrent|unordered|_usage"),
    # S3 itself has this only for directory buckets.
    ("DeleteObject by time or size", r"delete_objects?_(current_)?if_match_(last|size)"),
]
AREAS = [
    ("checksums", r"checksum|cksum"),
    ("attributes of objects (GetObjectAttributes)", r"object_attributes"),
    ("copies", r"object_copy|copy_object|copy_(bucket|key)"),
    ("parts copied (UploadPartCopy)", r"multipart_copy|upload_part_copy"),
    ("multipart uploads", r"multipart|100_continue_error"),
    ("conditions of reads", r"get_object_if"),
    ("conditions of writes and deletions", r"if_?(none|non)?_?match|conditional_write"),
    ("deletion of many objects", r"multi_object|delete_objects"),
    ("ranges", r"ranged"),
    ("listings, version 1", r"bucket_list_|bucket_listv1|bucket_notexist|basic_key"),
    ("listings, version 2", r"listv2|bucketv2"),
    ("names and lists of buckets", r"bucket_create_naming|buckets_|list_buckets|bucket_(create|recreate|delete|head|get_location)|special_key|special_prefix"),
    ("signatures, presigned URLs, anonymous requests", r"authorization|raw_|anon|authenticated|_date|ua_"),
    ("headers, MD5, lengths, 100-continue", r"bad_|100_continue|chunked|contentlength"),
    ("objects, metadata, atomic writes", r""),
]
NEVER_COMPARED = {name for name, _ in NOT_COMPARED}
# A test that takes longer waits for what never comes.
SECONDS = 100


def area(test):
    name = test.removeprefix("test_")
    return next(area for area, pattern in NOT_COMPARED + AREAS if re.search(pattern, name))


def configuration(endpoint, access_key, secret_key):
    """All accounts are the same one."""
    address = urlsplit(endpoint)
    parser = configparser.RawConfigParser()
    parser["DEFAULT"] = {"host": address.hostname, "port": address.port, "is_secure": address.scheme == "https",
                         "ssl_verify": False}
    parser["fixtures"] = {"bucket prefix": "s3-tests-{random}-"}
    account = {"access_key": access_key, "secret_key": secret_key, "display_name": "", "user_id": "", "email": "", "tenant": "",
               "api_name": ""}
    for section in ("s3 main", "s3 alt", "s3 tenant", "iam", "iam root", "iam alt root"):
        parser[section] = account
    return parser


def run(suite, name, endpoint, access_key, secret_key, results, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        written = os.path.join(folder, "s3tests.conf")
        with open(written, "w") as out:
            configuration(endpoint, access_key, secret_key).write(out)
        lines = os.path.join(folder, "lines")
        here = os.path.dirname(os.path.abspath(__file__))
        environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        region = os.environ.get("AWS_REGION", "us-east-1")
        environment |= {"S3TEST_CONF": written, "S3_SUITE_LINES": lines, "PYTHONPATH": here, "AWS_DEFAULT_REGION": region}
        files = [f"s3tests/functional/{file}.py" for file in ("test_s3", "test_headers")]
        command = [sys.executable, "-m", "pytest", "-p", "s3_suite", "-p", "no:cacheprovider", "-q", "--tb=no", "--no-header",
                   f"--timeout={SECONDS}", *arguments, *([] if any(".py" in one for one in arguments) else files)]
        subprocess.run(command, cwd=suite, env=environment, check=False)
        with open(lines) as file:
            tests = dict(json.loads(line) for line in file)
    commit = subprocess.run(["git", "-C", suite, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    with open(results, "w") as out:
        json.dump({"name": name, "suite": commit, "tests": tests}, out, indent=1, sort_keys=True)
    passed = sum(why is None for why in tests.values())
    print(f"{name}: {passed} of {len(tests)} passed")


# What follows is a plugin of pytest, which loads this file by its name.


def empty(client, bucket):
    """Deletes a bucket with what is in it."""
    def quietly(call, **arguments):
        from botocore.exceptions import ClientError
        try:
            return call(Bucket=bucket, **arguments)
        except ClientError:
            return {}

    for _ in range(100):
        listed = quietly(client.list_objects_v2).get("Contents", [])
        if listed:
            quietly(client.delete_objects, Delete={"Objects": [{"Key": one["Key"]} for one in listed], "Quiet": True})
            # What deletes nothing in bulk may delete one at a time.
            if quietly(client.list_objects_v2, MaxKeys=1).get("Contents", [{}])[0].get("Key") == listed[0]["Key"]:
                for one in listed:
                    quietly(client.delete_object, Key=one["Key"])
        uploads = quietly(client.list_multipart_uploads).get("Uploads", [])
        for one in uploads:
            quietly(client.abort_multipart_upload, Key=one["Key"], UploadId=one["UploadId"])
        if not listed and not uploads:
            break
    quietly(client.delete_bucket)


def pytest_configure(config):
    if "S3TEST_CONF" not in os.environ:
        return
    # The package awscrt computes checksums that others do not, and signs what these tests change afterwards.
    import botocore.auth as auth
    auth.AUTH_TYPE_MAPS.update({"v4": auth.SigV4Auth, "v4-query": auth.SigV4QueryAuth, "s3v4": auth.S3SigV4Auth,
                                "s3v4-query": auth.S3SigV4QueryAuth, "s3v4-presign-post": auth.S3SigV4PostAuth})
    import s3tests.functional as functional
    functional.nuke_bucket = empty
    # One account has nothing to be removed three times.
    functional.setup = functional.teardown = lambda: functional.nuke_prefixed_buckets(prefix=functional.prefix)


def pytest_runtest_logreport(report):
    if hasattr(report, "node"):
        return  # of a process that wrote its line itself
    test = report.nodeid.rsplit("::", 1)[-1]
    if report.when == "teardown" or (report.when == "setup" and report.passed):
        return
    why = None if report.passed else "skipped" if report.skipped else str(getattr(report.longrepr, "reprcrash", report.longrepr))[-400:]
    with open(os.environ["S3_SUITE_LINES"], "a") as out:
        out.write(json.dumps([test, why]) + "\n")


def table(*files):
    runs = []
    for file in files:
        with open(file) as opened:
            runs.append(json.load(opened))
    # What the suite itself leaves out, for want of a setting, says nothing.
    tests = sorted({test for run in runs for test, why in run["tests"].items() if why != "skipped"})

    def row(label, of_row):
        cells = [f"{sum(run['tests'].get(test, '') is None for test in of_row)}" for run in runs]
        return f"| {label} | {len(of_row)} | {' | '.join(cells)} |"

    print(f"| area | tests | {' | '.join(run['name'] for run in runs)} |")
    print("|---|" + "--:|" * (len(runs) + 1))
    for name, _ in AREAS:
        print(row(name, [test for test in tests if area(test) == name]))
    compared = [test for test in tests if area(test) not in NEVER_COMPARED]
    print(row("**together**", compared))
    print(row("of these passed by none", [test for test in compared if all(run["tests"].get(test, "") for run in runs)]))
    for name, _ in NOT_COMPARED:
        print(row(f"*{name}*", [test for test in tests if area(test) == name]))


def failed(file):
    with open(file) as opened:
        tests = json.load(opened)["tests"]
    for name, _ in AREAS:
        for test, why in tests.items():
            if why not in (None, "skipped") and area(test) == name:
                print(f"{name}: {test}\n    {why.strip().splitlines()[-1][:300]}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--table", *files] if files:
            table(*files)
        case ["--failed", file]:
            failed(file)
        case [suite, name, endpoint, access_key, secret_key, results, *arguments]:
            run(suite, name, endpoint, access_key, secret_key, results, *arguments)
        case _:
            sys.exit(__doc__)
