"""As much of S3 as the campaign needs, with signatures of version 4."""

import hashlib
import hmac
import http.client
import time
import urllib.parse
import xml.etree.ElementTree


class Node:
    """One server, by a connection for each request: a server that is killed takes its connections along."""

    def __init__(self, host, port, access_key, secret_key):
        self.host, self.port, self.access_key, self.secret_key = host, port, access_key, secret_key

    def request(self, method, path, query=None, body=b"", headers=None, timeout=30):
        """Status, headers and body, or an `OSError` or `HTTPException` if it is not known what happened."""
        path = urllib.parse.quote(path, safe="/~")
        query = urllib.parse.urlencode(sorted((query or {}).items()), quote_via=urllib.parse.quote, safe="~")
        signed = self.sign(method, path, query, headers or {})
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, path + ("?" + query if query else ""), body=body, headers=signed)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def sign(self, method, path, query, headers):
        now = time.gmtime()
        stamp, day = time.strftime("%Y%m%dT%H%M%SZ", now), time.strftime("%Y%m%d", now)
        headers = {**headers, "host": f"{self.host}:{self.port}", "x-amz-date": stamp,
                   "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
        names = sorted(headers)
        lines = "".join(f"{name}:{headers[name]}\n" for name in names)
        canonical = "\n".join([method, path, query, lines, ";".join(names), "UNSIGNED-PAYLOAD"])
        scope = f"{day}/us-east-1/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = ("AWS4" + self.secret_key).encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, "
                                    f"SignedHeaders={';'.join(names)}, Signature={signature}")
        return headers

    def list(self, bucket, prefix):
        """The names of all objects that begin so."""
        names, token = [], None
        while True:
            query = {"list-type": "2", "prefix": prefix} | ({"continuation-token": token} if token else {})
            status, _, body = self.request("GET", f"/{bucket}", query)
            if status != 200:
                raise OSError(f"the listing of {bucket}/{prefix} was answered with {status}: {body[:300]}")
            root = xml.etree.ElementTree.fromstring(body)
            space = root.tag.split("}")[0] + "}" if root.tag.startswith("{") else ""
            names += [entry.findtext(f"{space}Key") for entry in root.iter(f"{space}Contents")]
            token = root.findtext(f"{space}NextContinuationToken")
            if not token:
                return names
