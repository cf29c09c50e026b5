"""Files to read, and Metalinks of them."""

import hashlib
import os
import random
import zlib

MIB = 1 << 20


class File:
    """A file that no compression helps with, and its checksums."""

    def __init__(self, folder, name, size, seed):
        self.path, self.name, self.size = os.path.join(folder, name), name, size
        sha256, adler32, draw = hashlib.sha256(), 1, random.Random(seed)
        with open(self.path, "wb") as out:
            for at in range(0, size, MIB):
                chunk = draw.randbytes(min(MIB, size - at))
                sha256.update(chunk)
                adler32 = zlib.adler32(chunk, adler32)
                out.write(chunk)
        self.hashes = {"sha-256": sha256.hexdigest(), "adler32": f"{adler32:08x}"}

    def serve(self, servers):
        """Puts it into the folders of servers, without a copy."""
        for server in servers:
            os.link(self.path, os.path.join(server["folder"], self.name))


def metalink(path, files, addresses, checksum="sha-256"):
    """Writes a Metalink of files, each with the addresses of the folders that it is in. Returns its path."""
    text = ['<metalink xmlns="urn:ietf:params:xml:ns:metalink">']
    for file, folders in zip(files, addresses):
        urls = "".join(f"<url>{folder}{file.name}</url>" for folder in folders)
        text.append(f'<file name="{file.name}"><size>{file.size}</size>'
                    f'<hash type="{checksum}">{file.hashes[checksum]}</hash>{urls}</file>')
    with open(path, "w") as out:
        out.write("\n".join(text + ["</metalink>\n"]))
    return path
