"""Round trips with boto3 against one endpoint: python round_trip.py ENDPOINT ACCESS_KEY SECRET_KEY. Prints a table."""
import base64, datetime, hashlib, io, os, sys, threading, time, urllib.request, urllib.error, uuid, zlib
import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

endpoint, access, secret = sys.argv[1:4]
def client(**over):
    args = dict(endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=access, aws_secret_access_key=secret,
                config=Config(retries={"max_attempts": 1}, max_pool_connections=64))
    args.update(over)
    return boto3.client("s3", **args)
s3 = client()
bucket = "rt-" + uuid.uuid4().hex[:12]
rows = []
def test(what):
    def run(f):
        try:
            f(); rows.append((what, "ok"))
        except Exception as e:
            rows.append((what, "FAILED: %s %s" % (type(e).__name__, str(e)[:200])))
    return run
def code(f, *a, **k):
    try: f(*a, **k)
    except ClientError as e: return e.response["ResponseMetadata"]["HTTPStatusCode"], e.response["Error"]["Code"]
    return 200, ""
def eq(a, b): assert a == b, "%r is not %r" % (a, b)
put = lambda key, body=b"x", **k: s3.put_object(Bucket=bucket, Key=key, Body=body, **k)
get = lambda key, **k: s3.get_object(Bucket=bucket, Key=key, **k)

@test("CreateBucket, ListBuckets, HeadBucket, GetBucketLocation")
def _():
    s3.create_bucket(Bucket=bucket); assert bucket in [b["Name"] for b in s3.list_buckets()["Buckets"]]
    s3.head_bucket(Bucket=bucket); eq(s3.get_bucket_location(Bucket=bucket)["LocationConstraint"], None)
    eq(code(s3.create_bucket, Bucket=bucket), (409, "BucketAlreadyOwnedByYou"))
    eq(code(s3.head_bucket, Bucket="no-such-bucket")[0], 404)
    eq(code(s3.list_objects_v2, Bucket="no-such-bucket"), (404, "NoSuchBucket"))
    eq(code(s3.put_object, Bucket="no-such-bucket", Key="k", Body=b"x"), (404, "NoSuchBucket"))
    eq(code(s3.put_object, Bucket="no-such-bucket", Key="k", Body=b"x"*3000000), (404, "NoSuchBucket"))
@test("PutObject, GetObject, HeadObject, DeleteObject")
def _():
    r = put("a", b"hello"); eq(r["ETag"], '"5d41402abc4b2a76b9719d911017c592"')
    g = get("a"); eq(g["Body"].read(), b"hello"); eq(g["ETag"], r["ETag"]); eq(g["ContentLength"], 5)
    h = s3.head_object(Bucket=bucket, Key="a"); eq(h["ContentLength"], 5)
    s3.delete_object(Bucket=bucket, Key="a"); s3.delete_object(Bucket=bucket, Key="a")
    eq(code(get, "a"), (404, "NoSuchKey")); eq(code(s3.head_object, Bucket=bucket, Key="a")[0], 404)
@test("sizes 0 B to 20 MiB, byte for byte")
def _():
    for n in (0, 1, 4096, 65535, 65536, 65537, 1 << 20, 5 << 20, 20 << 20):
        body = os.urandom(n); put("size", body); g = get("size"); eq(hashlib.md5(g["Body"].read()).hexdigest(), hashlib.md5(body).hexdigest())
        eq(g["ETag"].strip('"'), hashlib.md5(body).hexdigest())
@test("user metadata, content headers")
def _():
    put("m", b"x", Metadata={"Colour": "blue"}, ContentType="text/plain", CacheControl="no-cache", ContentDisposition="attachment", ContentEncoding="gzip", ContentLanguage="de", Expires=datetime.datetime(2030, 1, 1))
    for r in (get("m"), s3.head_object(Bucket=bucket, Key="m")):
        eq(r["Metadata"], {"colour": "blue"}); eq(r["ContentType"], "text/plain"); eq(r["CacheControl"], "no-cache"); eq(r["ContentDisposition"], "attachment"); eq(r["ContentEncoding"], "gzip"); eq(r["ContentLanguage"], "de"); eq(r["ExpiresString"], "Tue, 01 Jan 2030 00:00:00 GMT")
    eq(get("m", ResponseContentType="x/y")["ContentType"], "x/y")
    eq(code(put, "m2", Metadata={"k": "x" * 3000}), (400, "MetadataTooLarge"))
@test("ranges: first-last, first-, suffix, past the end, partial 206")
def _():
    body = os.urandom(200000); put("r", body)
    for text, part in (("bytes=0-0", body[:1]), ("bytes=10-19", body[10:20]), ("bytes=199990-", body[199990:]), ("bytes=-7", body[-7:]), ("bytes=100-9999999", body[100:]), ("bytes=65530-131080", body[65530:131081]), ("bytes=-9999999", body)):
        g = get("r", Range=text); eq(g["Body"].read(), part); eq(g["ResponseMetadata"]["HTTPStatusCode"], 206); assert g["ContentRange"].endswith("/200000")
    eq(code(get, "r", Range="bytes=200000-"), (416, "InvalidRange"))
    h = s3.head_object(Bucket=bucket, Key="r", Range="bytes=5-9"); eq(h["ContentLength"], 5)
@test("conditional reads: If-Match, If-None-Match, If-(Un)Modified-Since")
def _():
    tag = put("c", b"hello")["ETag"]; past = datetime.datetime(2020,1,1); future = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=-1)
    for f in (get, lambda k, **a: s3.head_object(Bucket=bucket, Key=k, **a)):
        eq(code(f, "c", IfMatch=tag)[0], 200); eq(code(f, "c", IfMatch='"x"')[0], 412)
        eq(code(f, "c", IfNoneMatch=tag)[0], 304); eq(code(f, "c", IfNoneMatch='"x"')[0], 200)
        eq(code(f, "c", IfModifiedSince=past)[0], 200); eq(code(f, "c", IfUnmodifiedSince=past)[0], 412)
        time.sleep(1.1); now = datetime.datetime.now(datetime.timezone.utc)
        eq(code(f, "c", IfModifiedSince=now)[0], 304); eq(code(f, "c", IfUnmodifiedSince=now)[0], 200)
        eq(code(f, "c", IfMatch=tag, IfUnmodifiedSince=past)[0], 200); eq(code(f, "c", IfNoneMatch='"x"', IfModifiedSince=now)[0], 200)
@test("conditional writes: PutObject If-None-Match: *, If-Match")
def _():
    tag = put("w", b"1", IfNoneMatch="*")["ETag"]; eq(code(put, "w", b"2", IfNoneMatch="*"), (412, "PreconditionFailed"))
    eq(code(put, "w", b"2" * 3000000, IfNoneMatch="*"), (412, "PreconditionFailed"))
    eq(code(put, "w", b"2", IfMatch='"5d41402abc4b2a76b9719d911017c592"'), (412, "PreconditionFailed")); put("w", b"2", IfMatch=tag); eq(get("w")["Body"].read(), b"2")
    eq(code(put, "absent", b"2", IfMatch=tag), (404, "NoSuchKey")); eq(code(put, "w", IfNoneMatch=tag), (501, "NotImplemented"))
@test("conditional writes: one of 16 racers wins")
def _():
    won = []
    def race(n):
        c = code(put, "race", b"%d" % n, IfNoneMatch="*")
        won.append(c)
    ts = [threading.Thread(target=race, args=(n,)) for n in range(16)]; [t.start() for t in ts]; [t.join() for t in ts]
    eq(sorted(c[0] for c in won), [200] + [412] * 15)
@test("conditional DeleteObject: If-Match")
def _():
    tag = put("d", b"1")["ETag"]; eq(code(s3.delete_object, Bucket=bucket, Key="d", IfMatch='"x"'), (412, "PreconditionFailed")); s3.delete_object(Bucket=bucket, Key="d", IfMatch=tag); eq(code(get, "d")[0], 404)
    put("d", b"1"); eq(code(s3.delete_object, Bucket=bucket, Key="d", IfMatchSize=7), (412, "PreconditionFailed")); s3.delete_object(Bucket=bucket, Key="d", IfMatchSize=1); eq(code(get, "d")[0], 404)
@test("DeleteObjects, quiet and not, with ETags")
def _():
    tags = {k: put(k)["ETag"] for k in ("x/1", "x/2", "x/<&>\u00e4")}
    r = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in tags] + [{"Key": "never"}]}); eq({d["Key"] for d in r["Deleted"]}, set(tags) | {"never"})
    put("x/1"); r = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "x/1", "ETag": '"zz"'}], "Quiet": True}); eq(r["Errors"][0]["Code"], "PreconditionFailed"); s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "x/1"}], "Quiet": True}); eq(code(get, "x/1")[0], 404)
listed = ["l/a", "l/b/1", "l/b/2", "l/c d+e&%<\u00e4\u20ac", "l/d/", "l/e"]
@test("ListObjectsV2: prefix, delimiter, start-after, tokens, max-keys, fetch-owner")
def _():
    for k in listed: put(k)
    l = lambda **k: s3.list_objects_v2(Bucket=bucket, **k)
    eq([o["Key"] for o in l(Prefix="l/")["Contents"]], listed)
    r = l(Prefix="l/", Delimiter="/"); eq([o["Key"] for o in r["Contents"]], ["l/a", listed[3], "l/e"]); eq([p["Prefix"] for p in r["CommonPrefixes"]], ["l/b/", "l/d/"]); eq(r["KeyCount"], 5)
    got, token = [], None
    while True:
        r = l(Prefix="l/", Delimiter="/", MaxKeys=1, **({"ContinuationToken": token} if token else {})); eq(r["KeyCount"], 1)
        got += [o["Key"] for o in r.get("Contents", [])] + [p["Prefix"] for p in r.get("CommonPrefixes", [])]; token = r.get("NextContinuationToken")
        if not r["IsTruncated"]: break
    eq(got, ["l/a", "l/b/", listed[3], "l/d/", "l/e"])
    eq([o["Key"] for o in l(Prefix="l/", StartAfter="l/c")["Contents"]], listed[3:]); eq(l(Prefix="l/", MaxKeys=0)["KeyCount"], 0)
    assert "ID" in l(Prefix="l/", FetchOwner=True)["Contents"][0]["Owner"]; eq(code(l, ContinuationToken="***")[0], 400); eq(code(l, MaxKeys=-1)[0], 400)
@test("ListObjects (v1): marker, delimiter, encoding-type")
def _():
    l = lambda **k: s3.list_objects(Bucket=bucket, **k)
    eq([o["Key"] for o in l(Prefix="l/")["Contents"]], listed)
    got, marker = [], ""
    while True:
        r = l(Prefix="l/", Delimiter="/", MaxKeys=2, Marker=marker); got += [o["Key"] for o in r.get("Contents", [])] + [p["Prefix"] for p in r.get("CommonPrefixes", [])]
        if not r["IsTruncated"]: break
        marker = r["NextMarker"]
    eq(sorted(got), sorted(["l/a", "l/b/", listed[3], "l/d/", "l/e"]))
    r = l(Prefix="l/c", EncodingType="url"); eq(r["Contents"][0]["Key"], "l/c%20d%2Be%26%25%3C%C3%A4%E2%82%AC")
@test("2,500 objects in pages")
def _():
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(32) as pool: list(pool.map(lambda n: put("p/%05d" % n, b""), range(2500)))
    keys = [o["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="p/") for o in page["Contents"]]; eq(keys, ["p/%05d" % n for n in range(2500)])
    for at in range(0, 2500, 1000): s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in keys[at:at+1000]], "Quiet": True})
@test("odd keys: //, .., ., spaces, %, quotes, emoji, 1,024 bytes, control characters")
def _():
    for k in ("a//b", "/lead", "trail/", "..", "a/../b", "./a", "a b", "a+b", "100%", "q'\"", "\U0001f600", "k" * 1024, "tab\tnew\nline", "?x=1&y", "#", ";", "a\\b", "~*!()'"):
        put(k, k.encode()); eq(get(k)["Body"].read(), k.encode())
        keys = [o["Key"] for o in s3.list_objects_v2(Bucket=bucket, Prefix=k)["Contents"]]; assert k in keys, (k, keys)
        s3.delete_object(Bucket=bucket, Key=k); eq(code(get, k)[0], 404)
    eq(code(put, "k" * 1025), (400, "KeyTooLongError"))
@test("CopyObject: metadata COPY and REPLACE, conditions, onto itself")
def _():
    tag = put("src \u00e4+", b"copied", Metadata={"a": "1"}, ContentType="text/x")["ETag"]; src = {"Bucket": bucket, "Key": "src \u00e4+"}
    c = lambda key="dst", **k: s3.copy_object(Bucket=bucket, Key=key, CopySource=src, **k)
    eq(c()["CopyObjectResult"]["ETag"], tag); g = get("dst"); eq((g["Body"].read(), g["Metadata"], g["ContentType"]), (b"copied", {"a": "1"}, "text/x"))
    c(MetadataDirective="REPLACE", Metadata={"b": "2"}); eq(get("dst")["Metadata"], {"b": "2"})
    eq(code(c, "src \u00e4+"), (400, "InvalidRequest")); c("src \u00e4+", MetadataDirective="REPLACE", Metadata={"c": "3"}); g = get("src \u00e4+"); eq((g["Body"].read(), g["Metadata"]), (b"copied", {"c": "3"}))
    eq(code(c, CopySourceIfMatch='"x"')[0], 412); eq(code(c, CopySourceIfNoneMatch=tag)[0], 412); eq(code(c, CopySourceIfUnmodifiedSince=datetime.datetime(2020,1,1))[0], 412)
    eq(code(s3.copy_object, Bucket=bucket, Key="z", CopySource={"Bucket": bucket, "Key": "absent"}), (404, "NoSuchKey"))
    big = os.urandom(9 << 20); put("big", big); s3.copy_object(Bucket=bucket, Key="big2", CopySource={"Bucket": bucket, "Key": "big"}); put("big", b"changed"); eq(get("big2")["Body"].read(), big)
@test("multipart: create, parts, list parts, list uploads, complete, partNumber, parts out of order")
def _():
    u = s3.create_multipart_upload(Bucket=bucket, Key="mp", Metadata={"m": "p"}, ContentType="a/b")["UploadId"]; ids = dict(Bucket=bucket, Key="mp", UploadId=u)
    bodies = [os.urandom(5 << 20), os.urandom(5 << 20), os.urandom(1234)]
    tags = {}
    for n in (3, 1, 2): tags[n] = s3.upload_part(PartNumber=n, Body=bodies[n-1], **ids)["ETag"]
    r = s3.list_parts(**ids); eq([(p["PartNumber"], p["Size"]) for p in r["Parts"]], [(1, 5<<20), (2, 5<<20), (3, 1234)])
    r = s3.list_parts(MaxParts=2, **ids); eq((r["IsTruncated"], r["NextPartNumberMarker"]), (True, 2)); eq([p["PartNumber"] for p in s3.list_parts(PartNumberMarker=2, **ids)["Parts"]], [3])
    eq([x["UploadId"] for x in s3.list_multipart_uploads(Bucket=bucket, Prefix="m")["Uploads"]], [u])
    eq(code(get, "mp")[0], 404); parts = [{"PartNumber": n, "ETag": tags[n]} for n in (1, 2, 3)]
    eq(code(s3.complete_multipart_upload, MultipartUpload={"Parts": parts[::-1]}, **ids), (400, "InvalidPartOrder"))
    eq(code(s3.complete_multipart_upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": '"x"'}]}, **ids), (400, "InvalidPart"))
    r = s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **ids)
    eq(r["ETag"].strip('"'), hashlib.md5(b"".join(hashlib.md5(b).digest() for b in bodies)).hexdigest() + "-3"); whole = b"".join(bodies)
    g = get("mp"); eq(g["Body"].read(), whole); eq((g["Metadata"], g["ContentType"]), ({"m": "p"}, "a/b"))
    for n in (1, 2, 3): g = get("mp", PartNumber=n); eq(g["Body"].read(), bodies[n-1]); eq((g["PartsCount"], g["ResponseMetadata"]["HTTPStatusCode"]), (3, 206))
    eq(s3.head_object(Bucket=bucket, Key="mp", PartNumber=2)["ContentLength"], 5 << 20); eq(code(get, "mp", PartNumber=4)[0], 416)
    g = get("mp", Range="bytes=%d-%d" % ((5 << 20) - 3, (5 << 20) + 3)); eq(g["Body"].read(), whole[(5<<20)-3:(5<<20)+4])
    eq(code(s3.upload_part, PartNumber=1, Body=b"x", **ids), (404, "NoSuchUpload"))
    eq(s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **ids)["ETag"], r["ETag"]); put("mp"); eq(code(s3.complete_multipart_upload, MultipartUpload={"Parts": parts}, **ids), (404, "NoSuchUpload"))
@test("multipart: small parts refused, abort, unknown upload, conditional complete, part numbers")
def _():
    up = lambda: dict(Bucket=bucket, Key="mq", UploadId=s3.create_multipart_upload(Bucket=bucket, Key="mq")["UploadId"])
    ids = up(); tags = [s3.upload_part(PartNumber=n, Body=b"small", **ids)["ETag"] for n in (1, 2)]
    eq(code(s3.complete_multipart_upload, MultipartUpload={"Parts": [{"PartNumber": n+1, "ETag": t} for n, t in enumerate(tags)]}, **ids), (400, "EntityTooSmall"))
    s3.abort_multipart_upload(**ids); eq(code(s3.list_parts, **ids), (404, "NoSuchUpload")); eq(code(s3.abort_multipart_upload, Bucket=bucket, Key="mq", UploadId="nonsense"), (404, "NoSuchUpload"))
    ids = up(); eq(code(s3.upload_part, PartNumber=0, Body=b"", **ids)[0], 400); eq(code(s3.upload_part, PartNumber=10001, Body=b"", **ids)[0], 400)
    put("mq"); t = s3.upload_part(PartNumber=1, Body=b"new", **ids)["ETag"]; done = {"Parts": [{"PartNumber": 1, "ETag": t}]}
    eq(code(s3.complete_multipart_upload, MultipartUpload=done, IfNoneMatch="*", **ids), (412, "PreconditionFailed")); s3.complete_multipart_upload(MultipartUpload=done, **ids); eq(get("mq")["Body"].read(), b"new")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
@test("UploadPartCopy, whole and by range")
def _():
    body = os.urandom(6 << 20); put("pc", body); u = s3.create_multipart_upload(Bucket=bucket, Key="pcd")["UploadId"]; ids = dict(Bucket=bucket, Key="pcd", UploadId=u); src = {"Bucket": bucket, "Key": "pc"}
    a = s3.upload_part_copy(PartNumber=1, CopySource=src, **ids)["CopyPartResult"]["ETag"]; b = s3.upload_part_copy(PartNumber=2, CopySource=src, CopySourceRange="bytes=10-19", **ids)["CopyPartResult"]["ETag"]
    eq(code(s3.upload_part_copy, PartNumber=3, CopySource=src, CopySourceRange="bytes=0-99999999", **ids), (416, "InvalidRange"))
    s3.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": a}, {"PartNumber": 2, "ETag": b}]}, **ids); eq(get("pcd")["Body"].read(), body + body[10:20])
@test("checksums: CRC32, CRC32C, SHA1, SHA256, CRC64NVME where the client has it; wrong ones keep nothing")
def _():
    algorithms = ["CRC32", "SHA1", "SHA256"]
    try:
        import awscrt; algorithms += ["CRC32C", "CRC64NVME"]
    except ImportError: pass
    for a in algorithms:
        put("cs", b"checked", ChecksumAlgorithm=a); g = get("cs", ChecksumMode="ENABLED"); f = "Checksum" + a; assert g[f], a; g["Body"].read()
        eq(g["ChecksumType"], "FULL_OBJECT"); eq(s3.head_object(Bucket=bucket, Key="cs", ChecksumMode="ENABLED")[f], g[f])
        eq(code(put, "cs-wrong", b"other", **{f: g[f]})[0], 400); eq(code(get, "cs-wrong")[0], 404)
    eq(code(put, "cs-wrong", b"other", ChecksumCRC32="AAAAAA=="), (400, "BadDigest")); eq(code(get, "cs-wrong")[0], 404)
@test("Content-MD5: right, wrong, malformed")
def _():
    put("md5", b"hello", ContentMD5="XUFAKrxLKna5cZ2REBfFkg=="); eq(code(put, "md5", b"other", ContentMD5="XUFAKrxLKna5cZ2REBfFkg=="), (400, "BadDigest")); eq(code(put, "md5", b"x", ContentMD5="zz"), (400, "InvalidDigest")); eq(get("md5")["Body"].read(), b"hello")
@test("checksums of multipart uploads: composite and of the whole")
def _():
    bodies = [os.urandom(5 << 20), b"end"]
    for kind in ("COMPOSITE", "FULL_OBJECT"):
        u = s3.create_multipart_upload(Bucket=bucket, Key="mc", ChecksumAlgorithm="CRC32", ChecksumType=kind)["UploadId"]; ids = dict(Bucket=bucket, Key="mc", UploadId=u)
        parts = []
        for n, b in enumerate(bodies):
            r = s3.upload_part(PartNumber=n+1, Body=b, ChecksumAlgorithm="CRC32", **ids); parts.append({"PartNumber": n+1, "ETag": r["ETag"], "ChecksumCRC32": r["ChecksumCRC32"]})
        crc = base64.b64encode(zlib.crc32(b"".join(bodies)).to_bytes(4, "big")).decode()
        comp = base64.b64encode(zlib.crc32(b"".join(zlib.crc32(b).to_bytes(4, "big") for b in bodies)).to_bytes(4, "big")).decode() + "-2"
        eq(code(s3.complete_multipart_upload, MultipartUpload={"Parts": parts}, ChecksumCRC32="AAAAAA==", **ids), (400, "BadDigest"))
        r = s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **ids); eq(r["ChecksumCRC32"], crc if kind == "FULL_OBJECT" else comp)
        g = get("mc", ChecksumMode="ENABLED"); eq((g["ChecksumCRC32"], g["ChecksumType"]), (r["ChecksumCRC32"], kind)); eq(g["Body"].read(), b"".join(bodies))
@test("GetObjectAttributes: size, entity tag, checksum, parts in pages")
def _():
    tag = put("at", b"attributes", ChecksumAlgorithm="CRC32")["ETag"]; a = lambda key="at", **k: s3.get_object_attributes(Bucket=bucket, Key=key, ObjectAttributes=["ETag", "ObjectSize", "Checksum", "ObjectParts", "StorageClass"], **k)
    r = a(); eq((r["ETag"].strip('"'), r["ObjectSize"], r["StorageClass"], "ObjectParts" in r), (tag.strip('"'), 10, "STANDARD", False)); assert r["Checksum"]["ChecksumCRC32"]
    u = s3.create_multipart_upload(Bucket=bucket, Key="atm")["UploadId"]; ids = dict(Bucket=bucket, Key="atm", UploadId=u)
    parts = [{"PartNumber": n, "ETag": s3.upload_part(PartNumber=n, Body=b"x" * (5 << 20 if n < 3 else 7), **ids)["ETag"]} for n in (1, 2, 3)]; s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **ids)
    p = a("atm", MaxParts=2)["ObjectParts"]; eq((p["TotalPartsCount"], p["IsTruncated"], p["NextPartNumberMarker"]), (3, True, 2)); eq([(x["PartNumber"], x["Size"]) for x in a("atm", PartNumberMarker=2)["ObjectParts"]["Parts"]], [(3, 7)])
@test("high-level transfers: upload_fileobj, download_fileobj, 40 MiB in parts")
def _():
    body = os.urandom(40 << 20); s3.upload_fileobj(io.BytesIO(body), bucket, "hl"); out = io.BytesIO(); s3.download_fileobj(bucket, "hl", out); eq(hashlib.md5(out.getvalue()).digest(), hashlib.md5(body).digest())
@test("trailing checksums in chunked bodies, signed and unsigned")
def _():
    for body in (b"", b"chunked", os.urandom(3 << 20)):
        r = s3.put_object(Bucket=bucket, Key="ch", Body=io.BytesIO(body), ChecksumAlgorithm="CRC32"); eq(get("ch")["Body"].read(), body)
@test("presigned URLs: GET, PUT, expired, tampered")
def _():
    put("ps", b"presigned"); url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "ps"}, ExpiresIn=60); eq(urllib.request.urlopen(url).read(), b"presigned")
    up = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "ps2"}, ExpiresIn=60); urllib.request.urlopen(urllib.request.Request(up, data=b"put", method="PUT", headers={"Content-Type": ""})); eq(get("ps2")["Body"].read(), b"put")
    def status(u):
        try: return urllib.request.urlopen(u).status
        except urllib.error.HTTPError as e: return e.code
    v4 = client(config=Config(signature_version="s3v4")); short = v4.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "ps"}, ExpiresIn=1); eq(status(short), 200); time.sleep(2.2); eq(status(short), 403); eq(status(url.replace("/ps?", "/ps2?")), 403); eq(status(endpoint + "/" + bucket + "/ps"), 403)
@test("wrong secret, unknown key, no signature, wrong clock")
def _():
    eq(code(client(aws_secret_access_key="wrong").list_buckets), (403, "SignatureDoesNotMatch")); eq(code(client(aws_access_key_id="nobody").list_buckets)[0], 403)
@test("what is not there: NotImplemented")
def _():
    for f, k in ((s3.get_bucket_policy, {}), (s3.put_bucket_versioning, dict(VersioningConfiguration={"Status": "Enabled"})), (s3.get_object_tagging, dict(Key="ps")), (s3.put_object, dict(Key="t", Tagging="a=b")), (s3.put_object, dict(Key="t", ServerSideEncryption="AES256")), (s3.put_object, dict(Key="t", ACL="public-read")), (s3.get_bucket_lifecycle_configuration, {})):
        eq(code(f, Bucket=bucket, **k)[0], 501)
    eq(code(get, "ps", VersionId="abc")[0], 404)
@test("anonymous, POST form")
def _():
    r = urllib.request.Request(endpoint + "/" + bucket, data=b"x", headers={"Content-Type": "multipart/form-data; boundary=x"})
    try: urllib.request.urlopen(r); c = 200
    except urllib.error.HTTPError as e: c = e.code
    eq(c, 501)
@test("DeleteBucket: not while there is something in it")
def _():
    eq(code(s3.delete_bucket, Bucket=bucket), (409, "BucketNotEmpty"))
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": o["Key"]} for o in page["Contents"]]})
    s3.delete_bucket(Bucket=bucket); eq(code(s3.head_bucket, Bucket=bucket)[0], 404)
width = max(len(r[0]) for r in rows)
for what, how in rows: print(what.ljust(width), how)
sys.exit(any(how != "ok" for _, how in rows))
