"""Writes a Python wheel that holds nothing but the program, as `pip`, `pipx` and `uvx` install it.

Usage: wheel.py OUT_DIR VERSION PLATFORM_TAG PROGRAM DESCRIPTION_FILE LICENCE_FILE...
Times come from SOURCE_DATE_EPOCH, so the same program makes the same wheel.
"""

import base64
import hashlib
import os
import sys
import time
import zipfile
from pathlib import Path

METADATA = """\
Metadata-Version: 2.4
Name: codelab
Version: {version}
Summary: A self-hosted runtime in which a team of AI agents works on your code
License-Expression: Apache-2.0
{licences}
Requires-Python: >=3.8
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Rust
Description-Content-Type: text/markdown

{description}
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: codelab-package
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


class Wheel:
    """A zip file that remembers the digest of what is put in."""

    def __init__(self, path: Path, epoch: int) -> None:
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        # The zip format knows no earlier time.
        self.time = time.gmtime(max(epoch, 315532800))[:6]
        self.record: list[str] = []

    def add(self, name: str, content: bytes, mode: int = 0o644) -> None:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(content)}")
        self.write(name, content, mode)

    def write(self, name: str, content: bytes, mode: int) -> None:
        info = zipfile.ZipInfo(name, self.time)
        info.create_system = 3  # Unix, or the mode does not count
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, content)

    def close(self, record_name: str) -> None:
        lines = [*self.record, f"{record_name},,"]
        self.write(record_name, "".join(f"{line}\n" for line in lines).encode(), 0o644)
        self.zip.close()


def main(out: str, version: str, platform: str, program: str, description: str, *licences: str) -> None:
    name = f"codelab-{version}"
    info = f"{name}.dist-info"
    path = Path(out) / f"{name}-py3-none-{platform}.whl"
    wheel = Wheel(path, int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    wheel.add(f"{name}.data/scripts/codelab", Path(program).read_bytes(), 0o755)
    names = [Path(licence).name for licence in licences]
    metadata = METADATA.format(
        version=version,
        licences="\n".join(f"License-File: {licence}" for licence in names),
        description=Path(description).read_text(),
    )
    wheel.add(f"{info}/METADATA", metadata.encode())
    wheel.add(f"{info}/WHEEL", WHEEL.format(platform=platform).encode())
    for licence, licence_name in zip(licences, names):
        wheel.add(f"{info}/licenses/{licence_name}", Path(licence).read_bytes())
    wheel.close(f"{info}/RECORD")


if __name__ == "__main__":
    main(*sys.argv[1:])
