"""Hostile input to the ports of a running node: python3 s3_hostile.py EVENKEEL [--patient].

Starts a node on loopback and sends what no client would, by plain sockets. Each row says what has to come back. With --patient it
waits until those that send a byte now and then were sent away, which takes 100 s. In the end the node has to be alive
and as small as before, its log has to be free of keys, panics and signatures, and nothing beside its folder may have changed.
"""
import base64, datetime, hashlib, hmac, json, os, re, shutil, socket, ssl, subprocess, sys, tempfile, threading, time
from urllib.parse import quote, urlsplit

evenkeel = os.path.abspath(sys.argv[1])
work = tempfile.mkdtemp(prefix="s3-hostile-")
data = os.path.join(work, "data", "n1")
ACCESS, SECRET = "AKHOSTILE", "the-secret-of-this-run-" + os.urandom(8).hex()
rows = []


keys = os.path.join(work, "keys.toml")
with open(os.open(keys, os.O_CREAT | os.O_WRONLY, 0o600), "w") as out:
    out.write(f'access_key = "{ACCESS}"\nsecret_key = "{SECRET}"\n')
stderr_path = os.path.join(work, "stderr")
node = subprocess.Popen(
    [evenkeel, "node", "--data", data, "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--log", "json", "--credentials", keys,
     "--json"], stdout=subprocess.PIPE, text=True, stderr=open(stderr_path, "w"), cwd=work)
told = json.loads(node.stdout.readline())
ports = [urlsplit(told[name]).port for name in ("endpoint", "control")]


def sign(method, path, query="", headers=None, payload=b"", port=None, secret=SECRET, now=None, hashed=None, names=None, region="us-east-1",
         access=ACCESS):
    """The headers of a request, signed. `names`: which are signed, if not all."""
    now = now or datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    hashed = hashed or hashlib.sha256(payload).hexdigest()
    headers = {"host": f"127.0.0.1:{port or ports[0]}", "x-amz-date": stamp, "x-amz-content-sha256": hashed, **(headers or {})}
    signed = sorted(names or headers)
    canonical = "\n".join([method, path, query, *(f"{name}:{headers[name].strip()}" for name in signed), "", ";".join(signed), hashed])
    scope = f"{day}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = signing_key(day, region, secret)
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={';'.join(signed)}, "
                                f"Signature={signature}")
    return headers


def signing_key(day, region, secret):
    key = ("AWS4" + secret).encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def presigned(method, path, seconds, headers=None, now=None, more=""):
    now = now or datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    scope = f"{day}/us-east-1/s3/aws4_request"
    query = (f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={quote(ACCESS + '/' + scope, safe='')}&X-Amz-Date={stamp}"
             f"&X-Amz-Expires={seconds}&X-Amz-SignedHeaders=host{more}")
    canonical = "\n".join([method, path, query, f"host:127.0.0.1:{ports[0]}", "", "host", "UNSIGNED-PAYLOAD"])
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signature = hmac.new(signing_key(day, "us-east-1", SECRET), text.encode(), hashlib.sha256).hexdigest()
    return f"{path}?{query}&X-Amz-Signature={signature}"


def connect(port=None):
    return socket.create_connection(("127.0.0.1", port or ports[0]), timeout=20)


def raw(request, port=None, seconds=20.0, half_closed=False):
    """All that comes back."""
    with connect(port) as stream:
        stream.settimeout(seconds)
        try:
            stream.sendall(request)
            if half_closed:
                stream.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it may have been refused before it was complete
        return receive(stream)


def receive(stream):
    """An answer with its body, or what came of it."""
    came = b""
    while True:
        try:
            more = stream.recv(1 << 16)
        except (TimeoutError, OSError):
            return came
        came += more
        head, _, body = came.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        if not more or (length and len(body) >= int(length[1])) or (b" 304 " in head[:20] or b" 204 " in head[:20]):
            return came


def request(method, path, headers, body=b"", query=""):
    lines = [f"{method} {path}{'?' + query if query else ''} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if "content-length" not in headers and "transfer-encoding" not in headers:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def ask(method, path, body=b"", query="", headers=None, **more):
    return raw(request(method, path, sign(method, path, query, headers, body, **more), body, query), more.get("port"))


def status(answer):
    words = answer.split(b" ", 2)
    code = re.search(rb"<Code>(\w+)</Code>", answer)
    return (int(words[1]) if len(words) > 1 and words[1].isdigit() else 0, code[1].decode() if code else "")


def row(what, answer, *expected):
    """Expected are a status, a code, or both in a pair; one of them has to be it."""
    told = status(answer) if isinstance(answer, bytes) else answer
    fits = any(one == told or (isinstance(one, int) and told[0] == one) or one == told[1] for one in expected)
    rows.append((what, f"{told[0]} {told[1]}".strip(), fits))
    print(f"{'ok    ' if fits else 'WRONG '} {what}: {told[0]} {told[1]}{'' if fits else f', expected {expected}: {answer[:300]!r}'}", flush=True)


def memory_kib():
    with open(f"/proc/{node.pid}/status") as file:
        text = file.read()
    return {name: int(re.search(rf"{name}:\s+(\d+)", text)[1]) for name in ("VmRSS", "VmHWM")}


def tree(folder):
    return {os.path.join(at, name): os.stat(os.path.join(at, name)).st_mtime_ns for at, _, names in os.walk(folder) for name in names}


outside = tree(work).keys() - tree(data).keys()
ok = 200
row("a bucket", ask("PUT", "/bkt"), ok)
row("an object", ask("PUT", "/bkt/k", b"hello"), ok)
before = memory_kib()

# Names.
for name in ("..", "../..", "../../../etc/passwd", "/etc/passwd", "//", ".", "a/../../b", "~root", "C:\\x", "a\\..\\..\\b", "con", "\u202e",
             "a" * 1024, ".evenkeel", "-rf", "$(touch x)", "`id`", "\x01\x02", "%2e%2e", "%00", "\ufffe"):
    path = "/bkt/" + quote(name, safe="-_.~/")
    row(f"key {name[:20]!r} written", ask("PUT", path, name.encode()), ok)
    got = ask("GET", path)
    row(f"key {name[:20]!r} read", got if got.endswith(name.encode()) else b"x 0 x", ok)
    row(f"key {name[:20]!r} deleted", ask("DELETE", path), 204)
for what, path, *expected in (
        ("key of 1,025 bytes", "/bkt/" + "a" * 1025, (400, "KeyTooLongError")),
        ("key with a zero byte", "/bkt/a%00b", 400), ("key not UTF-8", "/bkt/%ff%fe", 400), ("overlong UTF-8", "/bkt/%c0%ae%c0%ae", 400),
        ("half a surrogate", "/bkt/%ed%a0%80", 400), ("bucket ..", "/../k", (400, "InvalidBucketName")),
        ("bucket %2e%2e", "/%2e%2e/k", (400, "InvalidBucketName")), ("bucket with a slash", "/bk%2Ft/k", 400, 404),
        ("bucket in capitals", "/BKT", (400, "InvalidBucketName")), ("bucket of 64 letters", "/" + "a" * 64, (400, "InvalidBucketName")),
        ("bucket a.-b", "/aa.-bb", (400, "InvalidBucketName")), ("bucket 127.0.0.1", "/127.0.0.1", (400, "InvalidBucketName"))):
    row(what, ask("PUT", path, b"" if path.count("/") == 1 else b"x"), *expected)
row("path without encoding", raw(request("GET", "/bkt/\x80\x81", sign("GET", "/bkt/k")).replace(b"\xc2\x80\xc2\x81", b"\x80\x81")), 400, 403)

# Heads.
row("garbage", raw(b"\x00\x01\x02garbage\r\n\r\n"), 400, 0)
row("a TLS hello", raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500), seconds=3), 400, 0)
row("HTTP/2 without asking", raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", seconds=3), 400, 505, 0)
row("a header of 1 MiB", raw(request("GET", "/bkt/k", {"host": "x", "x": "y" * (1 << 20)})), 431)
row("10,000 headers", raw(request("GET", "/bkt/k", {"host": "x", **{f"h{n}": "v" for n in range(10_000)}})), 431)
row("a path of 1 MiB", raw(request("GET", "/bkt/" + "a" * (1 << 20), {"host": "x"})), 414, 431)
row("a query of 100,000 pairs", raw(request("GET", "/bkt", {"host": "x"}, query="&".join(f"a{n}=b" for n in range(100_000)))), 414, 431)
row("two lengths", raw(b"PUT /bkt/k HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 5\r\n\r\nhello"), 400)
row("length and chunks", raw(b"PUT /bkt/k HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), 400, 403)
row("a negative length", raw(b"PUT /bkt/k HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n"), 400)
row("a length of 2^70", raw(b"PUT /bkt/k HTTP/1.1\r\nhost: x\r\ncontent-length: 1180591620717411303424\r\n\r\n"), 400)
row("a line feed in a header", raw(request("GET", "/bkt/k", {"host": "x", "x-amz-meta-a": "b\nx-amz-copy-source: /bkt/k"})), 400, 403)
row("an unknown method", raw(request("BREW", "/bkt/k", sign("BREW", "/bkt/k"))), 405, 501, 400)
row("no host", raw(b"GET /bkt/k HTTP/1.1\r\n\r\n"), 400, 403)
row("a range of many", ask("GET", "/bkt/k", headers={"range": "bytes=" + ",".join(f"{n}-{n}" for n in range(5000))}), 400, 416, ok)
row("a range of 2^64", ask("GET", "/bkt/k", headers={"range": "bytes=18446744073709551615-18446744073709551616"}), 400, 416, ok)

# Documents.
bomb = ('<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a0 "' + "x" * 1000 + '">' + "".join(
    f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9)) + ']><Delete><Object><Key>&a9;</Key></Object></Delete>').encode()
outer = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&e;</Key></Object></Delete>'


def delete(body):
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    return ask("POST", "/bkt", body, "delete=", {"content-md5": md5})


row("an XML bomb", delete(bomb), (400, "MalformedXML"))
answer = delete(outer)
row("an external entity", answer if b"root:" not in answer else b"x 0 x", (400, "MalformedXML"))
row("XML of 100,000 levels", delete(b"<Delete>" + b"<a>" * 100_000 + b"</a>" * 100_000 + b"</Delete>"), (400, "MalformedXML"))
row("XML of 20 MiB", delete(b"<Delete><Object><Key>" + b"a" * (20 << 20) + b"</Key></Object></Delete>"), (400, "MaxMessageLengthExceeded"))
row("100,000 keys to delete", delete(b"<Delete>" + b"<Object><Key>a</Key></Object>" * 100_000 + b"</Delete>"), (400, "MalformedXML"))
row("XML that is none", delete(b"\xff\xfe\x00"), (400, "MalformedXML"))
row("XML without end", delete(b"<Delete><Object>"), (400, "MalformedXML"))
upload = re.search(rb"<UploadId>(\w+)", ask("POST", "/bkt/m", b"", "uploads="))[1].decode()
row("100,000 parts", ask("POST", "/bkt/m", b"<CompleteMultipartUpload>" + b"<Part><PartNumber>1</PartNumber><ETag>a</ETag></Part>" * 100_000 +
                         b"</CompleteMultipartUpload>", f"uploadId={upload}"), (400, "MalformedXML"), (400, "InvalidPartOrder"))
row("an upload's id that is a path", ask("GET", "/bkt/m", b"", "uploadId=" + quote("../../x", safe="")), (404, "NoSuchUpload"))
row("a continuation token that is none", ask("GET", "/bkt", b"", "continuation-token=" + quote("\x00../", safe="") + "&list-type=2"), 400)
row("2^40 keys of a page", ask("GET", "/bkt", b"", "list-type=2&max-keys=1099511627776"), 400, ok)

# Signatures.
headers = sign("GET", "/bkt/k")
row("a good one", raw(request("GET", "/bkt/k", headers)), ok)
row("the same for another object", raw(request("GET", "/bkt/l", headers)), (403, "SignatureDoesNotMatch"))
row("the same for another method", raw(request("DELETE", "/bkt/k", headers)), (403, "SignatureDoesNotMatch"))
row("the same with a query", raw(request("GET", "/bkt/k", headers, query="acl")), (403, "SignatureDoesNotMatch"))
row("the same at the control port", raw(request("GET", "/bkt/k", headers), ports[1]), 404, 403)
row("another key", ask("GET", "/bkt/k", secret="wrong"), (403, "SignatureDoesNotMatch"))
row("an unknown key", ask("GET", "/bkt/k", access="nobody"), 403)
row("none", raw(request("GET", "/bkt/k", {"host": "x"})), (403, "AccessDenied"))
row("none, to write", raw(request("PUT", "/bkt/k", {"host": "x"}, b"x")), (403, "AccessDenied"))
row("empty", raw(request("GET", "/bkt/k", {**headers, "authorization": ""})), 400, 403)
row("nonsense", raw(request("GET", "/bkt/k", {**headers, "authorization": "AWS4-HMAC-SHA256 " + "," * 5000})), 400, 403)
ago = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
row("an hour old", ask("GET", "/bkt/k", now=ago), (403, "RequestTimeTooSkewed"))
row("an hour ahead", ask("GET", "/bkt/k", now=ago + datetime.timedelta(hours=2)), (403, "RequestTimeTooSkewed"))
row("the year 9999", ask("GET", "/bkt/k", now=datetime.datetime(9999, 12, 31, tzinfo=datetime.timezone.utc)), 403, 400)
row("another body", raw(request("PUT", "/bkt/other", sign("PUT", "/bkt/other", payload=b"hello"), b"jello")), (400, "XAmzContentSHA256Mismatch"))
row("which was not kept", ask("GET", "/bkt/other"), (404, "NoSuchKey"))
added = {**sign("PUT", "/bkt/copy"), "x-amz-copy-source": "/bkt/k"}
row("a header added that makes it a copy", raw(request("PUT", "/bkt/copy", added)), (403, "AccessDenied"))
row("metadata added", raw(request("PUT", "/bkt/copy", {**sign("PUT", "/bkt/copy"), "x-amz-meta-evenkeel-redirect": "1"})), (403, "AccessDenied"))
row("the host not signed", ask("GET", "/bkt/k", names=["x-amz-date"]), (403, "AccessDenied"))
row("presigned", raw(request("GET", presigned("GET", "/bkt/k", 60), {"host": f"127.0.0.1:{ports[0]}"})), ok)
row("presigned, expired", raw(request("GET", presigned("GET", "/bkt/k", 60, now=ago), {"host": f"127.0.0.1:{ports[0]}"})), (403, "AccessDenied"))
row("presigned for eight days", raw(request("GET", presigned("GET", "/bkt/k", 691200), {"host": f"127.0.0.1:{ports[0]}"})), 400)
row("presigned for -1 s", raw(request("GET", presigned("GET", "/bkt/k", -1), {"host": f"127.0.0.1:{ports[0]}"})), 400)
row("presigned, with a header that makes it a copy", raw(request("PUT", presigned("PUT", "/bkt/copy", 60),
    {"host": f"127.0.0.1:{ports[0]}", "x-amz-copy-source": "/bkt/k"})), (403, "AccessDenied"))
date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
v2 = base64.b64encode(hmac.new(SECRET.encode(), f"GET\n\n\n{date}\n/bkt/k".encode(), hashlib.sha1).digest()).decode()
row("version 2, which could be replayed for ever", raw(request("GET", "/bkt/k", {
    "host": "x", "date": date, "authorization": f"AWS {ACCESS}:{v2}"})), (400, "InvalidRequest"))


# Bodies in signed chunks.
def chunked(chunks, length=None, spoil=None, announced=None):
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    size = sum(map(len, chunks)) if length is None else length
    kind = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
    headers = sign("PUT", "/bkt/chunked", headers={"x-amz-decoded-content-length": str(size), "content-encoding": "aws-chunked"},
                   now=now, hashed=kind)
    signature = headers["authorization"].rsplit("=", 1)[1]
    body, key = b"", signing_key(day, "us-east-1", SECRET)
    for number, chunk in enumerate([*chunks, b""]):
        text = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", stamp, f"{day}/us-east-1/s3/aws4_request", signature,
                          hashlib.sha256(b"").hexdigest(), hashlib.sha256(chunk).hexdigest()])
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        told = "0" * 64 if spoil == number else signature
        n = (announced or {}).get(number, len(chunk))
        body += f"{n:x};chunk-signature={told}\r\n".encode() + chunk + b"\r\n"
    return raw(request("PUT", "/bkt/chunked", headers, body))


row("chunks", chunked([b"a" * 70_000, b"b" * 10]), ok)
row("the signature of a chunk wrong", chunked([b"a" * 70_000, b"b" * 10], spoil=1), (403, "SignatureDoesNotMatch"))
row("that of the last, empty one wrong", chunked([b"a" * 70_000], spoil=1), (403, "SignatureDoesNotMatch"))
row("chunks longer than all was said to be", chunked([b"a" * 70_000], length=10), 400, 403)
row("chunks shorter than all was said to be", chunked([b"a" * 10], length=70_000), 400, 403)
row("a chunk longer than it says", chunked([b"a" * 100], announced={0: 50}), 400, 403)
row("a chunk shorter than it says", chunked([b"a" * 100, b"b" * 100], announced={0: 150}), 400, 403)
row("a chunk of 2^60", chunked([b"a" * 100], announced={0: 1 << 60}), 400, 403)
kept = ask("GET", "/bkt/chunked")
row("what was written first is still there", kept if kept.endswith(b"a" * 100 + b"b" * 10) else b"x 0 x", ok)

# Connections.
with connect() as stream:
    good = request("GET", "/bkt/k", sign("GET", "/bkt/k"))
    stream.sendall(good * 50)
    came = b""
    stream.settimeout(10)
    while came.count(b"HTTP/1.1 200") < 50:
        more = stream.recv(1 << 16)
        if not more:
            break
        came += more
row("50 requests in one piece", (came.count(b"HTTP/1.1 200"), ""), 50)
smuggled = request("PUT", "/bkt/s", sign("PUT", "/bkt/s", payload=b"x"), b"x") + b"GET /bkt/k HTTP/1.1\r\nhost: x\r\n\r\n"
row("a request behind another that is signed", (b"AccessDenied" in raw(smuggled + b"", seconds=3) or status(raw(smuggled))[0], ""), True, ok)
row("half-closed after the request", raw(good, half_closed=True), ok, 0)
row("half-closed within a body", raw(request("PUT", "/bkt/half", {**sign("PUT", "/bkt/half", hashed="UNSIGNED-PAYLOAD"), "content-length": "100000"},
                                            b"x" * 1000), half_closed=True), 400, 0)
row("which was not kept", ask("GET", "/bkt/half"), (404, "NoSuchKey"))
expect = request("PUT", "/bkt/none/x", {**sign("PUT", "/none/x", payload=b"x"), "expect": "100-continue"})
row("100-continue, refused before the body", raw(expect), 403)
slow, begun = [], time.time()


def trickle(start):
    stream = connect()
    stream.sendall(start)
    slow.append(stream)


for _ in range(300):
    trickle(b"GET /bkt/k HTTP/1.1\r\nhost: x\r\nx-a:")
for _ in range(200):
    trickle(request("PUT", "/bkt/slow", {"host": "x", "content-length": "100000000"}, b"x" * 10))
# Who has keys can take slots, of which there are 16.
for _ in range(12):
    trickle(request("PUT", "/bkt/slow", {**sign("PUT", "/bkt/slow", hashed="UNSIGNED-PAYLOAD"), "content-length": "100000000"}, b"x" * 10))
for _ in range(5):
    for stream in slow:
        try:
            stream.sendall(b"x")
        except OSError:
            pass
    time.sleep(0.5)
row("beside 512 slow clients a good one is answered", ask("GET", "/bkt/k"), ok)
threads = [threading.Thread(target=lambda: [raw(os.urandom(2000) + b"\r\n\r\n", seconds=2) for _ in range(20)]) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
row("after 160 requests of noise, too", ask("GET", "/bkt/k"), ok)
if "--patient" in sys.argv:
    while time.time() < begun + 100:
        for stream in slow:
            try:
                stream.sendall(b"x")
            except OSError:
                pass
        time.sleep(2)
    gone = 0
    for stream in slow:
        stream.settimeout(0.2)
        try:
            gone += stream.recv(1) in (b"", b"H")
        except TimeoutError:
            pass
        except OSError:
            gone += 1
    row("slow ones that were sent away after 100 s", (gone, ""), len(slow))
[stream.close() for stream in slow]

# The control port.
control = lambda method, path, body=b"", **more: ask(method, path, body, port=ports[1], **more)
row("control: status", control("GET", "/v1/status"), ok)
row("control: without a signature", raw(request("GET", "/v1/status", {"host": "x"}), ports[1]), 403)
row("control: settings without a signature", raw(request("POST", "/v1/settings", {"host": "x"}, b'{"paused":true}'), ports[1]), 403)
row("control: garbage", raw(os.urandom(500) + b"\r\n\r\n", ports[1], seconds=3), 400, 0)
for body in (b"", b"{", b"[" * 100_000, b'{"slots":-1}', b'{"slots":1e999}', b'{"other":1}', b"\xff", b'{"slots":0}'):
    row(f"control: settings {body[:20]!r}", control("POST", "/v1/settings", body), 400, 413, 403)
row("control: 10 MiB", control("POST", "/v1/settings", b" " * (10 << 20)), 400, 413, 403)
row("control: locate in no bucket", control("POST", "/v1/locate", b'{"bucket":"../..","limit":18446744073709551615}'), 400, 404)
row("control: a path that is none", control("GET", "/v1/../../etc/passwd"), 404)
row("control: a method that is none", control("DELETE", "/v1/status"), 405)
row("control: health, open to everybody", raw(request("GET", "/health", {"host": "x"}), ports[1]), ok)

# A port that encrypts.
certificate = [os.path.join(work, name) for name in ("cert.pem", "key.pem")]
subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-out", certificate[0], "-keyout",
                certificate[1]], check=True, capture_output=True)
with open(stderr_path, "a") as log:
    tls = subprocess.Popen([evenkeel, "node", "--data", os.path.join(work, "beyond"), "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--log",
                            "json", "--credentials", keys, "--json", "--tls-cert", certificate[0], "--tls-key", certificate[1]],
                           stdout=subprocess.PIPE, text=True, stderr=log, cwd=work)
port = urlsplit(json.loads(tls.stdout.readline())["endpoint"]).port
silent = [connect(port) for _ in range(200)]
row("TLS: garbage", raw(os.urandom(1000), port), 0)
row("TLS: a request without it", raw(request("GET", "/bkt/k", {"host": "x"}), port), 0)
row("TLS: a record of 64 KiB", raw(b"\x16\x03\x01\xff\xff" + os.urandom(65535), port), 0)
context = ssl.create_default_context(cafile=certificate[0])
context.check_hostname = False
with connect(port) as plain, context.wrap_socket(plain) as stream:
    stream.sendall(request("GET", "/", sign("GET", "/", port=port)))
    row("TLS: beside these and 200 silent ones a good one is answered", receive(stream), ok)
[stream.close() for stream in silent]
tls.terminate()
row("TLS: ends when it is told to", (tls.wait(60), ""), 0)

# In the end.
row("the object is as it was", ask("GET", "/bkt/k"), ok)
time.sleep(1)
after = memory_kib()
row(f"memory, MiB: {before['VmRSS'] >> 10} before, {after['VmRSS'] >> 10} after, {after['VmHWM'] >> 10} at most",
    (after["VmHWM"] < before["VmRSS"] + (160 << 10), ""), True)
sockets = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True).stdout
listens = [line.split()[3] for line in sockets.splitlines() if f"pid={node.pid}," in line]
row(f"listens at {', '.join(listens)}", (len(listens) == 2 and all(one.startswith("127.0.0.1:") for one in listens), ""), True)
beyond = subprocess.run([evenkeel, "node", "--data", os.path.join(work, "beyond", "loopback"), "--listen", "0.0.0.0:0"], capture_output=True, text=True,
                        timeout=20, env={name: value for name, value in os.environ.items() if not name.startswith("EVENKEEL")})
row("beyond the loopback without keys: refused", (beyond.returncode, ""), 1, 2)
node.terminate()
row("ends when it is told to", (node.wait(60), ""), 0)
with open(stderr_path) as file:
    log = file.read()
row("no panic", ("panicked" in log, ""), False)
signatures = re.findall(r"Signature=[0-9a-f]{64}|X-Amz-Signature", log)
row(f"no key and no signature in {len(log.splitlines())} lines of the log", (SECRET in log or bool(signatures), ""), False)
changed = {path for path in tree(work).keys() - outside if not path.startswith((data, stderr_path, os.path.join(work, "beyond"), *certificate))}
row(f"nothing beside the folder changed: {sorted(changed)}", (len(changed), ""), 0)
wrong = [one for one in rows if not one[2]]
print(f"{len(rows) - len(wrong)} of {len(rows)} as they should be")
shutil.rmtree(work)
sys.exit(bool(wrong))
