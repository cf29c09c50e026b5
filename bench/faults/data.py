"""The data set: files whose names need care, and which versions of them have existed."""

import hashlib
import os
import random

KIB = 1 << 10
# Names and sizes in KiB: with blocks of 1 MiB there are whole and broken ones, a single one and none.
FILES = {
    "plain": 6144, "with space": 3089, "100% %20": 2500, "plus+plus": 4096, "hash#mark": 1024, "ünï 漢字": 2049,
    "folder/below it": 3072, "question?a=1&b": 700, "empty": 0,
}


def digest(path):
    found = hashlib.blake2b()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            found.update(chunk)
    return found.hexdigest()


class Data:
    """The files below /data. Each version is kept in a local folder while it is needed."""

    def __init__(self, hdfs, folder):
        self.hdfs, self.folder, self.made = hdfs, folder, 0
        self.current, self.known, self.destroyed = {}, {}, set()
        draw = random.Random(0)
        for name in FILES:
            self.replace(name, self.version(draw, name))
        self.forget()

    def path(self, name):
        return f"/data/{name}"

    def version(self, draw, name):
        """A new version, often as long as the others. Returns where it is on this machine."""
        size = FILES[name] * KIB
        if size and draw.random() < 0.5:
            size += draw.randint(-600, 600) * KIB + draw.randint(0, 511)
        return self.local(draw.randbytes(size))

    def local(self, content):
        self.made += 1
        path = os.path.join(self.folder, f"version{self.made}")
        with open(path, "wb") as out:
            out.write(content)
        return path

    def exists(self, name, local):
        """From now on a reader may find this version."""
        self.known.setdefault(name, set()).add(digest(local))
        self.current[name] = local

    def replace(self, name, local):
        """Writes a file in place."""
        self.exists(name, local)
        self.hdfs.write(self.path(name), local)

    def restore(self, draw):
        """Writes files again that were destroyed, and removes those that are not part of the data set."""
        for name in list(self.current):
            if name not in FILES:
                self.hdfs.delete(self.path(name))
                del self.current[name]
            elif name in self.destroyed or os.path.getsize(self.current[name]) > (FILES[name] + 2048) * KIB:
                self.replace(name, self.version(draw, name))
        self.destroyed.clear()

    def forget(self):
        """Only current versions count from now on."""
        self.known = {name: {digest(local)} for name, local in self.current.items()}
        kept = set(self.current.values())
        for name in os.listdir(self.folder):
            if os.path.join(self.folder, name) not in kept:
                os.remove(os.path.join(self.folder, name))
