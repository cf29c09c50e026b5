"""Objects that are elsewhere, read with boto3: python s3_redirects.py UP.json, the line that `evenkeel up --nodes 3 --json` prints."""
import json, os, sys, boto3, hashlib, urllib.request, datetime
from botocore.config import Config
from botocore.exceptions import ClientError
d = json.load(open(sys.argv[1]))
def client(n):
    return boto3.client("s3", endpoint_url=d["endpoints"][n], region_name="us-east-1", aws_access_key_id=d["access_key"], aws_secret_access_key=d["secret_key"], config=Config(retries={"max_attempts": 1}))
c = [client(n) for n in range(3)]
def header(s3, value):
    s3.meta.events.register("before-sign.s3", lambda request, **k: request.headers.__setitem__("x-evenkeel-redirect", value))
    return s3
def code(f, *a, **k):
    try: f(*a, **k)
    except ClientError as e: return e.response["ResponseMetadata"]["HTTPStatusCode"], e.response["Error"]["Code"], e.response["Error"].get("Message")
    return 200, "", ""
import subprocess
for s in c:
    try: s.create_bucket(Bucket="bkt")
    except ClientError: pass
def crc32c(data):
    t = []
    for i in range(256):
        v = i
        for _ in range(8): v = (v >> 1) ^ (0x82F63B78 if v & 1 else 0)
        t.append(v)
    v = 0xFFFFFFFF
    for b in data: v = t[(v ^ b) & 255] ^ (v >> 8)
    return v ^ 0xFFFFFFFF
parts = [os.urandom(300000), os.urandom(200001), b""]
pieces = []
for n, (p, s) in enumerate(zip(parts, (1, 2, 1))):
    key = ".evenkeel/held/abc/%d" % n
    c[s].put_object(Bucket="bkt", Key=key, Body=p, Metadata={"evenkeel-of": "bkt/far", "evenkeel-home": "s1"})
    pieces.append({"server": "s%d" % (s+1), "key": key, "bytes": len(p), "crc32c": crc32c(p)})
whole = b"".join(parts)
etag = hashlib.md5(whole).hexdigest()
r = {"format": 1, "bytes": len(whole), "etag": etag, "pieces": pieces}
meta = {"evenkeel-redirect": "1", "evenkeel-bytes": str(len(whole)), "evenkeel-etag": etag, "mine": "yes"}
c[0].put_object(Bucket="bkt", Key="far", Body=json.dumps(r).encode(), Metadata=meta, ContentType="text/plain")
one = {"format": 1, "bytes": len(parts[0]), "etag": "e1", "pieces": pieces[:1]}
c[0].put_object(Bucket="bkt", Key="far1", Body=json.dumps(one).encode(), Metadata={"evenkeel-redirect": "1", "evenkeel-bytes": str(len(parts[0])), "evenkeel-etag": "e1"})
s3 = c[0]
h = s3.head_object(Bucket="bkt", Key="far"); assert h["ContentLength"] == len(whole) and h["ETag"] == '"%s"' % etag and h["Metadata"] == {"mine": "yes"}, h
g = s3.get_object(Bucket="bkt", Key="far"); assert g["Body"].read() == whole
for a, b in ((0, 0), (299990, 300010), (300000, 500000), (499999, 500000), (5, 500000)):
    assert s3.get_object(Bucket="bkt", Key="far", Range="bytes=%d-%d" % (a, b))["Body"].read() == whole[a:b+1]
l = {o["Key"]: o["Size"] for o in s3.list_objects_v2(Bucket="bkt", Prefix="far")["Contents"]}; assert l == {"far": len(whole), "far1": 300000}, l
print("hidden:", [o["Key"] for o in c[1].list_objects_v2(Bucket="bkt").get("Contents", [])], [o["Key"] for o in c[1].list_objects_v2(Bucket="bkt", Prefix=".evenkeel/")["Contents"]])
show = header(client(0), "show"); g = show.get_object(Bucket="bkt", Key="far"); assert json.loads(g["Body"].read()) == r; assert g["Metadata"] == meta
print("cond", code(s3.get_object, Bucket="bkt", Key="far", IfNoneMatch=etag)[0], code(s3.put_object, Bucket="bkt", Key="far", Body=b"x", IfMatch='"zz"')[0])
s3.copy_object(Bucket="bkt", Key="copied", CopySource={"Bucket": "bkt", "Key": "far"}); g = s3.get_object(Bucket="bkt", Key="copied"); assert g["Body"].read() == whole and g["Metadata"] == {"mine": "yes"} and g["ContentType"] == "text/plain"
follow = header(client(0), "follow")
print("follow", code(follow.get_object, Bucket="bkt", Key="far1"))
import http.client
# by hand: see Location
captured = {}
follow.meta.events.register("after-call.s3.GetObject", lambda http_response, **k: captured.update(http_response.headers))
code(follow.get_object, Bucket="bkt", Key="far1"); loc = captured.get("location") or captured.get("Location"); print(loc[:80]); assert urllib.request.urlopen(loc).read() == parts[0]
assert follow.get_object(Bucket="bkt", Key="far")["Body"].read() == whole
# damage: wrong crc
bad = dict(r, pieces=[dict(pieces[0], crc32c=1)] + pieces[1:]); s3.put_object(Bucket="bkt", Key="bad", Body=json.dumps(bad).encode(), Metadata=meta)
try: s3.get_object(Bucket="bkt", Key="bad")["Body"].read(); print("WRONG: no error")
except Exception as e: print("crc:", type(e).__name__, e)
bad = dict(one, pieces=[dict(pieces[0], key=".evenkeel/held/none/0")]); s3.put_object(Bucket="bkt", Key="bad", Body=json.dumps(bad).encode(), Metadata={"evenkeel-redirect": "1", "evenkeel-bytes": "300000", "evenkeel-etag": "e1"}); print("gone", code(s3.get_object, Bucket="bkt", Key="bad"))
print("junk", code(s3.put_object, Bucket="bkt", Key="bad2", Body=b"junk", Metadata=meta))
s3.delete_object(Bucket="bkt", Key="bad")
s3.put_object(Bucket="bkt", Key="far", Body=b"home", IfMatch=etag); assert s3.get_object(Bucket="bkt", Key="far")["Body"].read() == b"home"
print("ok")
